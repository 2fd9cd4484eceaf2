package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// output is what a command writes, from whatever goroutine.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// doCommand runs a command to its end.
func doCommand(ctx context.Context, environ []string, args ...string) (code int, out, errs string) {
	var stdout, stderr output
	code = dispatch(ctx, process{args, environ, &stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

// wholeRun feeds a cluster, runs the app on it, verifies, and stops the app.
func wholeRun(t *testing.T, environ []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	environ = append(environ, "HEADRACE_FEED_RECORDS=1500", "HEADRACE_FEED_PARTITIONS=2", "HEADRACE_VERIFY_TIMEOUT=30s")
	runCtx, stop := context.WithCancel(ctx)
	var app output
	ended := make(chan int, 1)
	go func() { ended <- dispatch(runCtx, process{[]string{"run"}, environ, &app, &app}) }()
	defer func() {
		stop()
		if code := <-ended; code != exitOK || !strings.Contains(app.String(), `"msg":"stopped"`) {
			t.Errorf("run ended with %d\n%s", code, app.String())
		}
		if t.Failed() {
			t.Log(app.String())
		}
	}()
	if code, out, errs := doCommand(ctx, environ, "feed"); code != exitOK || !strings.Contains(out, "fed 1,500 flights and 2 end marks") {
		t.Fatalf("feed ended with %d and said %q, %q", code, out, errs)
	}
	if code, out, errs := doCommand(ctx, environ, "verify"); code != exitOK || !strings.HasPrefix(out, "verified: ") {
		t.Fatalf("verify ended with %d and said %q, %q", code, out, errs)
	}
}

func fake(t *testing.T, opts ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

func TestFeedRunVerify(t *testing.T) {
	t.Parallel()
	broker := fake(t)
	environ := []string{"HEADRACE_BROKERS=" + broker, "HEADRACE_STATE=pebble", "HEADRACE_STATE_DIR=" + filepath.Join(t.TempDir(), "state")}
	wholeRun(t, environ)

	adm := kadm.NewClient(newClient(t, kgo.SeedBrokers(broker)))
	for topic, want := range map[string][2]string{
		flightsTopic: {"retention.ms", "-1"}, delaysTopic: {"retention.ms", "-1"}, lateTopic: {"retention.ms", "-1"}, airportsTopic: {"cleanup.policy", "compact"},
	} {
		described, err := adm.DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range described[0].Configs {
			if c.Key == want[0] {
				got = c.MaybeValue()
			}
		}
		if got != want[1] {
			t.Errorf("%s of %s is %q, want %q", want[0], topic, got, want[1])
		}
	}
	// Feeding again does nothing; more is refused; and what is verified must be what was fed.
	if code, out, _ := doCommand(t.Context(), environ, "feed", "--records=1500"); code != exitOK || !strings.Contains(out, "has the 1,500 flights already") {
		t.Errorf("feeding the same again ended with %d and said %q", code, out)
	}
	if code, _, errs := doCommand(t.Context(), environ, "feed", "--records=2000"); code != exitFail || !strings.Contains(errs, "has had 1502 records already") {
		t.Errorf("feeding more ended with %d and said %q", code, errs)
	}
	if code, _, errs := doCommand(t.Context(), environ, "verify", "--records=1000"); code != exitFail || !strings.Contains(errs, "more than the 1000 flights") {
		t.Errorf("verifying less ended with %d and said %q", code, errs)
	}
	if code, _, errs := doCommand(t.Context(), environ, "verify", "--records=2000", "--timeout=1ms"); code != exitFail || !strings.Contains(errs, "only 1502 of 2002 records") {
		t.Errorf("verifying more ended with %d and said %q", code, errs)
	}
	// A result too many is told at once, however patient one is.
	cl := newClient(t, kgo.SeedBrokers(broker), kgo.ConsumeTopics(delaysTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	first := cl.PollRecords(t.Context(), 1).Records()[0]
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: delaysTopic, Key: first.Key, Value: first.Value, Headers: first.Headers, Timestamp: first.Timestamp}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := doCommand(t.Context(), environ, "verify", "--records=1500", "--timeout=1h"); code != exitFail || !strings.Contains(out, "not verified: ") || !strings.Contains(out, "1 extra") {
		t.Errorf("with a window doubled, verify ended with %d and said %q, %q", code, out, errs)
	}
}

// Nobody processes: verify tells what is missing, and does not wait for longer than it was told.
func TestVerifyWithoutAnApp(t *testing.T) {
	t.Parallel()
	broker := fake(t)
	environ := []string{"HEADRACE_BROKERS=" + broker, "HEADRACE_FEED_RECORDS=100", "HEADRACE_VERIFY_TIMEOUT=1ms"}
	if code, _, errs := doCommand(t.Context(), environ, "verify"); code != exitFail || !strings.Contains(errs, "there is no topic flights") {
		t.Errorf("before the feed, verify ended with %d and said %q", code, errs)
	}
	if code, _, errs := doCommand(t.Context(), environ, "feed"); code != exitOK {
		t.Fatal(errs)
	}
	if code, out, _ := doCommand(t.Context(), environ, "verify"); code != exitFail || !strings.Contains(out, "not verified: 0 of ") || !strings.Contains(out, "is missing") {
		t.Errorf("without an app, verify ended with %d and said %q", code, out)
	}
}

func TestFeedRefusesTopicsThatForget(t *testing.T) {
	t.Parallel()
	broker := fake(t)
	adm := kadm.NewClient(newClient(t, kgo.SeedBrokers(broker)))
	week := "604800000"
	if _, err := adm.CreateTopic(t.Context(), 3, 1, map[string]*string{"retention.ms": &week}, delaysTopic); err != nil {
		t.Fatal(err)
	}
	code, _, errs := doCommand(t.Context(), nil, "feed", "--brokers", broker)
	if code != exitFail || !strings.Contains(errs, "topic airport-delays keeps records for 168h0m0s") || !strings.Contains(errs, "--add-config retention.ms=-1") {
		t.Errorf("feed ended with %d and said %q", code, errs)
	}
}

func TestUnreachableClusterIsTold(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() // nobody listens there now
	for _, command := range []string{"feed", "verify"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if code, _, errs := doCommand(ctx, nil, command, "--brokers", addr); code != exitFail || !strings.Contains(errs, "no broker of ["+addr+"] can be used") {
			t.Errorf("%s ended with %d and said %q", command, code, errs)
		}
		cancel()
	}
}

// authority signs certificates for 127.0.0.1 and for clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of the test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	certFile, _ := a.sign(t, a.cert)
	a.file = certFile
	raw, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign makes a certificate with its key and returns the names of their files. The authority's own is the first.
func (a *authority) sign(t *testing.T, c *x509.Certificate) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a.key == nil {
		a.key = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		write(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
}

func (a *authority) server(t *testing.T, name string) *tls.Config {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(name); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{name}
	}
	cert, key := a.sign(t, c)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// Everything works over TLS with each kind of password, and nothing with another one.
func TestTLSAndSASL(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{saslPlain, scram256, scram512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			broker := fake(t, kfake.TLS(ca.server(t, "127.0.0.1")), kfake.EnableSASL(), kfake.Superuser(mechanism, "bob", "hunter2"))
			environ := []string{
				"HEADRACE_BROKERS=" + broker, "HEADRACE_TLS_ENABLED=true", "HEADRACE_TLS_CA_FILE=" + ca.file,
				"HEADRACE_SASL_MECHANISM=" + mechanism, "HEADRACE_SASL_USERNAME=bob",
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			code, _, errs := doCommand(ctx, append(environ, "HEADRACE_SASL_PASSWORD_FILE="+write(t, "wrong")), "feed")
			if code != exitFail || !strings.Contains(errs, "the broker hangs up: see whether tls and sasl are as it asks for, and the password right") {
				t.Errorf("with a wrong password, feed ended with %d and said %q", code, errs)
			}
			wholeRun(t, append(environ, "HEADRACE_SASL_PASSWORD_FILE="+write(t, "hunter2\n")))
		})
	}
}

// The broker asks for a certificate, and has a name of its own.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	server := ca.server(t, "kafka.example")
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	server.ClientCAs.AddCert(ca.cert)
	broker := fake(t, kfake.TLS(server))
	cert, key := ca.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(3), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	base := []string{"HEADRACE_BROKERS=" + broker, "HEADRACE_TLS_ENABLED=true"}
	named := append(base[:2:2], "HEADRACE_TLS_CA_FILE="+ca.file, "HEADRACE_TLS_SERVER_NAME=kafka.example")
	for _, tt := range []struct {
		environ []string
		says    string
	}{
		{append(base[:2:2], "HEADRACE_TLS_SERVER_NAME=kafka.example"), "certificate signed by unknown authority"},
		{append(base[:2:2], "HEADRACE_TLS_CA_FILE="+ca.file), "127.0.0.1"}, // which its certificate does not have
		{named, "certificate required"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if code, _, errs := doCommand(ctx, tt.environ, "feed"); code != exitFail || !strings.Contains(errs, tt.says) {
			t.Errorf("feed ended with %d and said %q, want %q", code, errs, tt.says)
		}
		cancel()
	}
	wholeRun(t, append(named, "HEADRACE_TLS_CERT_FILE="+cert, "HEADRACE_TLS_KEY_FILE="+key))
}

// The embedded broker knows no tokens. What would be sent is seen here, before and after the file has changed.
func TestOAuthBearerSendsTheTokenOfTheFile(t *testing.T) {
	t.Parallel()
	file := write(t, "first\n")
	c, _, err := settle(nil, "--brokers=a:1", "--tls-enabled", "--sasl-mechanism=oauthbearer", "--sasl-token-file="+file)
	if err != nil {
		t.Fatal(err)
	}
	opts, err := c.kafkaOptions()
	if err != nil {
		t.Fatal(err)
	}
	given, ok := newClient(t, opts...).OptValue(kgo.SASL).([]sasl.Mechanism)
	if !ok || len(given) != 1 || given[0].Name() != oauthBearer {
		t.Fatalf("mechanisms %v", given)
	}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, first, err := given[0].Authenticate(t.Context(), "broker"); err != nil || !strings.Contains(string(first), "auth=Bearer "+token+"\x01") {
			t.Errorf("sends %q (%v), want token %s", first, err, token)
		}
	}
}

// What files must have in them is told when the app starts, and neither their content nor what may be a secret in place of a name.
func TestFilesThatAreNotWhatTheyShouldBe(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.sign(t, &x509.Certificate{SerialNumber: big.NewInt(4)})
	_, other := ca.sign(t, &x509.Certificate{SerialNumber: big.NewInt(5)})
	scram := func(file string) []string {
		return []string{"--sasl-mechanism=SCRAM-SHA-256", "--sasl-username=u", "--sasl-password-file=" + file}
	}
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--tls-enabled", "--tls-ca-file=nowhere"}, "tls.ca-file: it must name a file that can be read"},
		{[]string{"--tls-enabled", "--tls-ca-file=" + key}, "tls.ca-file: there is no certificate in it"},
		{[]string{"--tls-enabled", "--tls-cert-file=" + cert, "--tls-key-file=hunter2"}, "tls.key-file: it must name a file"},
		{[]string{"--tls-enabled", "--tls-cert-file=" + cert, "--tls-key-file=" + other}, "tls.cert-file and tls.key-file: tls: private key does not match"},
		{scram("hunter2"), "sasl.password-file: it must name a file that can be read: no such file"},
		{scram(write(t, "\n")), "sasl.password-file: the file is empty"},
		{scram(write(t, "hunter2\nhunter3\n")), "sasl.password-file: the file has more than one line"},
		{scram(t.TempDir()), "sasl.password-file: it must name a file"},
	} {
		for _, command := range []string{"run", "feed", "verify"} {
			code, out, errs := doCommand(t.Context(), nil, append([]string{command, "--brokers=127.0.0.1:1"}, tt.args...)...)
			if code == exitOK || !strings.Contains(errs, tt.says) || strings.Contains(fmt.Sprint(out, errs), "hunter") {
				t.Errorf("%s %q: ended with %d and said %q, want %q", command, tt.args, code, errs, tt.says)
			}
		}
	}
}
