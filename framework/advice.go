package framework

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// resource is what a broker may deny: of a kind, with a name, and what the app does with it.
type resource struct {
	kind       string // as kafka-acls.sh has it: topic, group, transactional-id
	name       string
	prefix     bool // name is the beginning of names
	operations []string
}

func (s *settings) inputTopic(name string) resource {
	return resource{"topic", name, false, []string{"Describe", "Read"}}
}

func (s *settings) outputTopic(name string) resource {
	return resource{"topic", name, false, []string{"Describe", "Write"}}
}

// internalTopics are all that the app has made. It deletes what it has read of them.
func (s *settings) internalTopics() resource {
	return resource{"topic", s.AppID + "-", true, []string{"Create", "Describe", "DescribeConfigs", "Read", "Write", "Delete"}}
}

func (s *settings) group() resource {
	return resource{"group", s.AppID, false, []string{"Describe", "Read"}}
}

func (s *settings) transactionalIDs() resource {
	return resource{"transactional-id", s.AppID + "-", true, []string{"Describe", "Write"}}
}

// topic is one of the app's or one of its user's. Which, and so what the app does with it, its name tells.
func (l *layout) topic(s *settings, name string) resource {
	if _, isInput := l.source[name]; isInput && !strings.HasPrefix(name, s.AppID+"-") {
		return s.inputTopic(name)
	}
	if strings.HasPrefix(name, s.AppID+"-") {
		return s.internalTopics()
	}
	return s.outputTopic(name)
}

// explain adds the way out to an error that the app can do nothing about. what is what failed, and on the resource that it needed.
func (s *settings) explain(what string, err error, on resource) error {
	switch {
	case isDenied(err):
		return fatal("%s: %w: the app may not %s %s; grant it: %s", what, err, strings.Join(on.operations, ", "), on, s.grant(on))
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return fatal("%s: %w: Config.TransactionTimeout is %v; give less, or raise transaction.max.timeout.ms of the brokers", what, err, s.TransactionTimeout)
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return fatal("%s: %w: Config.SessionTimeout is %v; keep to group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers, or change those", what, err, s.SessionTimeout)
	}
	if way := connectionWayOut(err); way != "" {
		return fatal("%s: %w; %s", what, err, way)
	}
	return fatal("%s: %w", what, err)
}

func (r resource) String() string {
	if r.prefix {
		return r.kind + "s that begin with " + r.name
	}
	return r.kind + " " + r.name
}

// grant is the command that allows it.
func (s *settings) grant(r resource) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-acls.sh --bootstrap-server %s --add --allow-principal User:<the user of the app>", strings.Join(s.Brokers, ","))
	for _, op := range r.operations {
		fmt.Fprintf(&b, " --operation %s", op)
	}
	fmt.Fprintf(&b, " --%s %s", r.kind, r.name)
	if r.prefix {
		b.WriteString(" --resource-pattern-type prefixed")
	}
	return b.String()
}

func isDenied(err error) bool {
	return isAny(err, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed)
}

// connectionWayOut says what to do about a connection that cannot be made as it is configured, "" if that may not be it.
func connectionWayOut(err error) string {
	var (
		authority *x509.UnknownAuthorityError
		byValue   x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "the broker does not know the user, or the password is wrong: check kgo.SASL in Config.Kafka, and that the user has this mechanism"
	case isAny(err, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState):
		return "the broker has other SASL mechanisms than the one of kgo.SASL in Config.Kafka: use one of sasl.enabled.mechanisms of its listener"
	case errors.As(err, &authority), errors.As(err, &byValue):
		return "the broker's certificate is signed by an authority that this process does not trust: add its CA to RootCAs of the tls.Config in kgo.DialTLSConfig"
	case errors.As(err, &host):
		return "the broker's certificate is for another name: use a name that is in it in Config.Brokers and in the broker's advertised.listeners, or set ServerName of the tls.Config"
	case errors.As(err, &invalid):
		if invalid.Reason == x509.Expired {
			return "the broker's certificate has expired or is not valid yet: renew it, or set this machine's clock"
		}
		return "the broker's certificate is not good for this: have it made anew"
	case errors.As(err, &record):
		return "the broker does not speak TLS on this port: use the port of its TLS listener, or leave kgo.DialTLSConfig out"
	case strings.Contains(err.Error(), "remote error: tls:"):
		return "the broker turns this client's certificate down, or wants one (ssl.client.auth=required): set Certificates of the tls.Config to one that is signed by a CA that the broker trusts"
	case isCutShort(err):
		return "the broker closes the connection before it answers: its listener may want TLS (kgo.DialTLSConfig) or SASL (kgo.SASL), or none, or another password"
	}
	return ""
}

// isCutShort says that a connection was made and nothing was answered on it.
func isCutShort(err error) bool {
	var eof *kgo.ErrFirstReadEOF
	return errors.As(err, &eof) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "plaintext connection")
}

// isMisconfigured says that trying again does not help: the connection is refused for what the app was configured with.
func isMisconfigured(err error) bool {
	return err != nil && !isCutShort(err) && connectionWayOut(err) != "" // a broker that is just starting cuts connections, too
}
