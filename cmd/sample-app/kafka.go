package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	saslPlain   = "PLAIN"
	scram256    = "SCRAM-SHA-256"
	scram512    = "SCRAM-SHA-512"
	oauthBearer = "OAUTHBEARER"
)

var mechanisms = []string{saslPlain, scram256, scram512, oauthBearer}

// kafkaOptions are how every client of ours reaches the cluster, but for the addresses. Files are read here, so that one that is
// missing is told before anything begins, and secrets and certificates again for each connection, so that they can be changed.
func (c *config) kafkaOptions() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	if c.TLS.Enabled {
		t, err := c.tls()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(t))
	}
	m, err := c.sasl()
	if err != nil {
		return nil, err
	}
	if m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts, nil
}

func (c *config) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.TLS.ServerName}
	if c.TLS.CAFile != "" {
		pem, err := readFile("tls.ca-file", c.TLS.CAFile)
		if err != nil {
			return nil, err
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("tls.ca-file: there is no certificate in it; it must be in PEM form")
		}
	}
	if c.TLS.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			cert, err := readFile("tls.cert-file", c.TLS.CertFile)
			if err != nil {
				return nil, err
			}
			key, err := readFile("tls.key-file", c.TLS.KeyFile)
			if err != nil {
				return nil, err
			}
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("tls.cert-file and tls.key-file: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return t, nil
}

func (c *config) sasl() (sasl.Mechanism, error) {
	if c.SASL.Mechanism == "" {
		return nil, nil
	}
	key, file := "sasl.password-file", c.SASL.PasswordFile
	if c.SASL.Mechanism == oauthBearer {
		key, file = "sasl.token-file", c.SASL.TokenFile
	}
	secret := func() (string, error) { return readSecret(key, file) }
	if _, err := secret(); err != nil {
		return nil, err
	}
	user := c.SASL.Username
	scramAuth := func(context.Context) (scram.Auth, error) {
		pass, err := secret()
		return scram.Auth{User: user, Pass: pass}, err
	}
	switch c.SASL.Mechanism {
	case saslPlain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := secret()
			return plain.Auth{User: user, Pass: pass}, err
		}), nil
	case scram256:
		return scram.Sha256(scramAuth), nil
	case scram512:
		return scram.Sha512(scramAuth), nil
	default:
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := secret()
			return oauth.Auth{Token: token}, err
		}), nil
	}
}

// readFile reads a file that a setting names. The error does not repeat the name: it may be the secret itself, put in the wrong place.
func readFile(key, name string) ([]byte, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, fmt.Errorf("%s: it must name a file that can be read: %w", key, err)
	}
	return raw, nil
}

func readSecret(key, name string) (string, error) {
	raw, err := readFile(key, name)
	if err != nil {
		return "", err
	}
	raw = bytes.TrimRight(raw, "\r\n")
	switch {
	case len(raw) == 0:
		return "", fmt.Errorf("%s: the file is empty", key)
	case bytes.ContainsAny(raw, "\r\n"):
		return "", fmt.Errorf("%s: the file has more than one line", key)
	}
	return string(raw), nil
}

// reachTimeout is how long feed and verify try to reach a cluster before they say that they cannot.
const reachTimeout = 10 * time.Second

// connect makes a client and sees that it reaches a broker.
func (c *config) connect(ctx context.Context, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.kafkaOptions()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(slices.Concat(opts, []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("sample-app"),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(250 * time.Millisecond), // topics that were just made are seen soon
	}, more)...)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	reach, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := client.Ping(reach); err != nil {
		client.Close()
		way := "see that they run, that the addresses are right, and tls and sasl as they ask for"
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			// Brokers that refuse a password say so; some only hang up.
			way = "the broker hangs up: see whether tls and sasl are as it asks for, and the password right"
		}
		return nil, fmt.Errorf("no broker of %v can be used: %w; %s", c.Brokers, err, way)
	}
	return client, nil
}
