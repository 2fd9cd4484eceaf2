package changelog_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/changelog"
)

func TestNames(t *testing.T) {
	t.Parallel()
	got := []string{changelog.Topic("flights", "delays"), changelog.RepartitionTopic("flights", "by-origin"), changelog.MetaTopic("flights")}
	want := []string{"flights-delays-changelog", "flights-by-origin-repartition", "flights-meta-changelog"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestCheckTopic(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "...", "A.b_c-9", strings.Repeat("x", 249)} {
		if err := changelog.CheckTopic(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, says := range map[string]string{
		"": "empty", ".": `"."`, "..": `".."`, strings.Repeat("x", 250): "250 characters",
		"a b": "' ' at byte 1", "über": "'ü' at byte 0", "a/b": "'/'", "a\xff": "at byte 1", "a\n": `'\n'`, "a:b": "':'", "[": "'['", "`": "'`'", "@": "'@'", "{": "'{'",
	} {
		if err := changelog.CheckTopic(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want an error that says %s", name, err, says)
		}
	}
}

func TestCheckNames(t *testing.T) {
	t.Parallel()
	fit := strings.Repeat("x", 249-len("app--changelog"))
	for _, store := range []string{"totals", "Meta", "meta-2", ".", fit} {
		if err := changelog.CheckStore("app", store); err != nil {
			t.Errorf("store %q: %v", store, err)
		}
	}
	for _, c := range []struct {
		name string
		err  error
		says string
	}{
		{"no app", changelog.CheckStore("", "a"), "application id is empty"},
		{"no store", changelog.CheckStore("app", ""), "store is empty"},
		{"app", changelog.CheckStore("my app", "a"), `application id "my app"`},
		{"store", changelog.CheckStore("app", "a store"), `store name "a store"`},
		{"long", changelog.CheckStore("app", fit+"x"), "250 characters"},
		{"reserved", changelog.CheckStore("app", "meta"), "app-meta-changelog"},
		{"no name", changelog.CheckRepartition("app", ""), "repartition topic is empty"},
		{"name", changelog.CheckRepartition("app", "a/b"), `repartition topic name "a/b"`},
		{"long name", changelog.CheckRepartition("app", fit), "251 characters"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v; want an error that says %s", c.name, c.err, c.says)
		}
	}
	if err := changelog.CheckRepartition("app", "meta"); err != nil {
		t.Errorf("a repartition topic may be named meta: %v", err)
	}
}

func TestConfigs(t *testing.T) {
	t.Parallel()
	shared := func(more map[string]string) map[string]string {
		more["message.timestamp.type"] = "CreateTime"
		more["message.timestamp.before.max.ms"] = "9223372036854775807"
		more["message.timestamp.after.max.ms"] = "9223372036854775807"
		return more
	}
	keyValue := shared(map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "604800000"})
	for name, c := range map[string]struct{ want, got map[string]string }{
		"key-value":   {keyValue, changelog.Configs(totals)},
		"meta":        {shared(map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "604800000", "segment.bytes": "52428800"}), changelog.MetaConfigs()},
		"session":     {shared(map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "delete.retention.ms": "604800000"}), changelog.Configs(visits)},
		"sliding":     {shared(map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "delete.retention.ms": "604800000"}), changelog.Configs(sliding)},
		"window":      {shared(map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "delete.retention.ms": "604800000"}), changelog.Configs(perHour)},
		"repartition": {shared(map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"}), changelog.RepartitionConfigs()},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
