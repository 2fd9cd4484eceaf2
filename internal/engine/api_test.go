package engine_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/engine"
)

// A task is logged as Kafka Streams writes it, in JSON as in text.
func TestATaskIsLoggedByItsName(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]func(*bytes.Buffer) slog.Handler{
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(to(&b)).Info("x", "task", engine.TaskID{SubTopology: 1, Partition: 2})
		if !strings.Contains(b.String(), "1_2") {
			t.Errorf("%s: %s", name, b.String())
		}
	}
}
