//go:build synctests

package framework_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/kafkatest"
	"github.com/headrace/headrace/state/pebblestore"
	"github.com/headrace/headrace/topology"
)

// on runs a test on a cluster with the topics in and out, made with opts.
func on(t *testing.T, opts []kfake.Opt, f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts := append([]kfake.Opt{kfake.SeedTopics(partitions, "in", "out")}, opts...)
		f(&world{t: t, stores: newDumps(), wrote: make(map[string]int64), c: kafkatest.Start(t, opts...)})
	})
}

// failsWithin wants Run to end within 10 s with one line that says all of parts.
func (w *world) failsWithin(change func(*framework.Config), parts ...string) error {
	w.t.Helper()
	began := time.Now()
	err := w.start("a", change).ends()
	if took := time.Since(began); took > 10*time.Second {
		w.t.Errorf("Run ended after %v, want 10 s at most: %v", took, err)
	}
	says(w.t, err, parts...)
	if err != nil && strings.Contains(err.Error(), "\n") {
		w.t.Errorf("the error has more than one line: %v", err)
	}
	return err
}

func withSASL(m sasl.Mechanism) func(w *world) func(*framework.Config) {
	return func(w *world) func(*framework.Config) {
		return func(c *framework.Config) { c.Kafka = append(w.c.Options(), kgo.SASL(m)) }
	}
}

func TestErrorsOfSASL(t *testing.T) {
	users := []kfake.Opt{
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.Superuser("SCRAM-SHA-256", "scram", "right"),
	}
	// kfake closes the connection where Apache Kafka says why.
	for name, with := range map[string]sasl.Mechanism{
		"wrong password":       plain.Auth{User: "admin", Pass: "xyzzy"}.AsMechanism(),
		"wrong SCRAM password": scram.Auth{User: "scram", Pass: "xyzzy"}.AsSha256Mechanism(),
	} {
		t.Run(name, func(t *testing.T) {
			on(t, users, func(w *world) {
				err := w.failsWithin(withSASL(with)(w), "no broker answered", "another password")
				if strings.Contains(err.Error(), "xyzzy") {
					t.Error("the password is in the error")
				}
			})
		})
	}
	t.Run("the broker says so", func(t *testing.T) {
		on(t, users, func(w *world) {
			w.c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.c.KeepControl()
				resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
				resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("Authentication failed: Invalid username or password")
				return resp, nil, true
			})
			began := time.Now()
			err := w.failsWithin(withSASL(plain.Auth{User: "admin", Pass: "xyzzy"}.AsMechanism())(w), "password is wrong", "kgo.SASL")
			if !errors.Is(err, kerr.SaslAuthenticationFailed) || time.Since(began) > time.Second {
				t.Errorf("Run returned %v after %v, want SASL_AUTHENTICATION_FAILED at once", err, time.Since(began))
			}
		})
	})
	t.Run("none where one is wanted", func(t *testing.T) {
		on(t, users, func(w *world) {
			w.failsWithin(nil, "no broker answered", "SASL")
		})
	})
}

// may lists what the app needs, without one of them.
func may(without string) []kfake.ACL {
	var out []kfake.ACL
	for name, acl := range map[string]kfake.ACL{
		"read":         {Resource: kmsg.ACLResourceTypeTopic, Name: "in", Operation: kmsg.ACLOperationRead},
		"write":        {Resource: kmsg.ACLResourceTypeTopic, Name: "out", Operation: kmsg.ACLOperationWrite},
		"internal":     {Resource: kmsg.ACLResourceTypeTopic, Name: appID + "-", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationAll},
		"group":        {Resource: kmsg.ACLResourceTypeGroup, Name: appID, Operation: kmsg.ACLOperationRead},
		"transactions": {Resource: kmsg.ACLResourceTypeTransactionalId, Name: appID + "-", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationAll},
	} {
		if acl.Pattern == 0 {
			acl.Pattern = kmsg.ACLResourcePatternTypeLiteral
		}
		acl.Allow = true
		if name != without {
			out = append(out, acl)
		}
	}
	return out
}

// Who lacks a right is told which, on what, and the command that grants it.
func TestErrorsOfACLs(t *testing.T) {
	const command = "kafka-acls.sh --bootstrap-server "
	for without, want := range map[string][]string{
		"read":         {"topic in", "TOPIC_AUTHORIZATION_FAILED", command, "--operation Read", "--topic in"},
		"write":        {"topic out", "TOPIC_AUTHORIZATION_FAILED", command, "--operation Write", "--topic out"},
		"internal":     {"words-counts-changelog", "_AUTHORIZATION_FAILED", command, "--operation Create", "--topic words- --resource-pattern-type prefixed"},
		"group":        {"group words", "GROUP_AUTHORIZATION_FAILED", command, "--operation Read", "--group words"},
		"transactions": {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", command, "--operation Write", "--transactional-id words- --resource-pattern-type prefixed"},
	} {
		t.Run(without, func(t *testing.T) {
			users := []kfake.Opt{
				kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "app", "secret", may(without)...),
			}
			on(t, users, func(w *world) {
				w.failsWithin(withSASL(plain.Auth{User: "app", Pass: "secret"}.AsMechanism())(w), want...)
			})
		})
	}
	t.Run("nothing is missing", func(t *testing.T) {
		users := []kfake.Opt{
			kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "app", "secret", may("")...),
		}
		on(t, users, func(w *world) {
			m := w.start("a", withSASL(plain.Auth{User: "app", Pass: "secret"}.AsMechanism())(w))
			m.runs(2 * partitions)
			m.stop()
		})
	})
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key, a.cert = a.sign(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour),
	}, nil)
	return a
}

func (a *authority) sign(c, by *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(1), pkix.Name{CommonName: "test"}
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	signer := a.key
	if by == nil {
		by, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

// issue makes a certificate for a name, until a time.
func (a *authority) issue(name string, until time.Time) tls.Certificate {
	c := &x509.Certificate{NotBefore: until.Add(-2 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature}
	if ip := net.ParseIP(name); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{name}
	}
	key, cert := a.sign(c, a.cert)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// What is wrong with TLS is said with the reason of x509.
func TestErrorsOfTLS(t *testing.T) {
	const broker = "127.0.0.1"
	for name, c := range map[string]struct {
		server func(a *authority) *tls.Config
		client func(a *authority) *tls.Config
		says   []string
	}{
		"unknown authority": {
			func(a *authority) *tls.Config {
				return &tls.Config{Certificates: []tls.Certificate{a.issue(broker, time.Now().Add(time.Hour))}}
			},
			func(*authority) *tls.Config { return &tls.Config{ServerName: broker} },
			[]string{"certificate signed by unknown authority", "RootCAs"},
		},
		"expired": {
			func(a *authority) *tls.Config {
				return &tls.Config{Certificates: []tls.Certificate{a.issue(broker, time.Now().Add(-time.Minute))}}
			},
			func(a *authority) *tls.Config { return &tls.Config{ServerName: broker, RootCAs: a.pool()} },
			[]string{"certificate has expired", "renew it"},
		},
		"another name": {
			func(a *authority) *tls.Config {
				return &tls.Config{Certificates: []tls.Certificate{a.issue("kafka.example", time.Now().Add(time.Hour))}}
			},
			func(a *authority) *tls.Config { return &tls.Config{ServerName: broker, RootCAs: a.pool()} },
			[]string{"127.0.0.1", "another name", "ServerName"},
		},
		"a client certificate is wanted": {
			func(a *authority) *tls.Config {
				return &tls.Config{
					Certificates: []tls.Certificate{a.issue(broker, time.Now().Add(time.Hour))},
					ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: a.pool(),
				}
			},
			func(a *authority) *tls.Config { // 1.3 says it only after the handshake, when this broker is gone
				return &tls.Config{ServerName: broker, RootCAs: a.pool(), MaxVersion: tls.VersionTLS12}
			},
			[]string{"remote error: tls:", "Certificates of the tls.Config"},
		},
		"the broker speaks no TLS": {
			func(*authority) *tls.Config { return nil },
			func(a *authority) *tls.Config { return &tls.Config{ServerName: broker, RootCAs: a.pool()} },
			[]string{"TLS"},
		},
		"the broker speaks TLS only": {
			func(a *authority) *tls.Config {
				return &tls.Config{Certificates: []tls.Certificate{a.issue(broker, time.Now().Add(time.Hour))}}
			},
			func(*authority) *tls.Config { return nil },
			[]string{"no broker answered", "TLS"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newAuthority(t)
				opts := []kfake.Opt{kfake.SeedTopics(partitions, "in", "out")}
				if server := c.server(a); server != nil {
					opts = append(opts, kfake.TLS(server))
				}
				w := &world{t: t, stores: newDumps(), wrote: make(map[string]int64), c: kafkatest.Start(t, opts...)}
				w.failsWithin(func(cfg *framework.Config) {
					cfg.Kafka = w.c.Options()
					if client := c.client(a); client != nil {
						cfg.Kafka = w.c.WithTLS(client)
					}
				}, c.says...)
			})
		})
	}
}

// An internal topic that somebody made with other settings loses records: it is not used.
func TestErrorsOfInternalTopics(t *testing.T) {
	for name, c := range map[string]struct {
		topic   string
		configs map[string]string
		says    []string
	}{
		"a changelog that is deleted by age": {
			"words-counts-changelog",
			map[string]string{"cleanup.policy": "delete"},
			[]string{"cleanup.policy of words-counts-changelog is delete and has to be compact", "kafka-configs.sh --bootstrap-server", "--add-config cleanup.policy=compact"},
		},
		"a repartition topic that is compacted": {
			"words-by-word-repartition",
			map[string]string{"cleanup.policy": "compact"},
			[]string{"cleanup.policy of words-by-word-repartition is compact and has to be delete"},
		},
		"a repartition topic of a week": {
			"words-by-word-repartition",
			map[string]string{"cleanup.policy": "delete", "retention.ms": "604800000"},
			[]string{"retention.ms of words-by-word-repartition is 604800000 and has to be -1"},
		},
		"a topic that the broker stamps": {
			"words-by-word-repartition",
			map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "LogAppendTime"},
			[]string{"message.timestamp.type of words-by-word-repartition is LogAppendTime and has to be CreateTime"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, nil, func(w *world) {
				w.createTopics(partitions, c.topic)
				for key, value := range c.configs {
					w.set(c.topic, key, value)
				}
				w.failsWithin(nil, c.says...)
			})
		})
	}
	t.Run("made by somebody else as they have to be", func(t *testing.T) {
		on(t, nil, func(w *world) {
			w.createTopics(partitions, "words-counts-changelog", "words-by-word-repartition")
			w.set("words-counts-changelog", "cleanup.policy", "compact")
			w.set("words-by-word-repartition", "cleanup.policy", "delete")
			w.set("words-by-word-repartition", "retention.ms", "-1")
			m := w.start("a", nil)
			m.runs(2 * partitions)
			m.stop()
		})
	})
}

func TestErrorsOfTopics(t *testing.T) {
	on(t, nil, func(w *world) {
		w.failsWithin(func(c *framework.Config) { c.OnRecordError = topology.DeadLetter("nowhere") }, "output topics nowhere did not exist within 9.5s (Config.TopicTimeout is 10s)", "create them")
	})
}

// A state directory that is in use, or that cannot be written, ends Run with who has it, or with why not.
func TestErrorsOfTheStateDirectory(t *testing.T) {
	t.Run("in use", func(t *testing.T) {
		on(t, nil, func(w *world) {
			dir := t.TempDir()
			m := w.start("a", func(c *framework.Config) { c.State = pebblestore.New(pebblestore.Config{Dir: dir}) })
			m.runs(2 * partitions)
			w.failsWithin(func(c *framework.Config) { c.State = pebblestore.New(pebblestore.Config{Dir: dir}) },
				"state directory "+dir, fmt.Sprintf("in use by pid %d", os.Getpid()), "give this one a directory of its own")
			m.stop()
		})
	})
	t.Run("not writable", func(t *testing.T) {
		on(t, nil, func(w *world) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(file, "state") // nobody can make it, root neither
			w.failsWithin(func(c *framework.Config) { c.State = pebblestore.New(pebblestore.Config{Dir: dir}) },
				"state directory "+dir+" cannot be used", "not a directory")
		})
	})
}
