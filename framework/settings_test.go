package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTimeWarnings(t *testing.T) {
	t.Parallel()
	const forever = "9223372036854775807"
	for name, c := range map[string]struct {
		set  map[string]string
		want []string // the settings that are named
	}{
		"nothing is known": {},
		"a topic as Kafka makes it": {
			set:  map[string]string{timestampType: "CreateTime", timestampBefore: forever, timestampAfter: "3600000", retentionTime: "604800000", cleanupPolicy: "delete"},
			want: []string{"message.timestamp.after.max.ms=3600000", "retention.ms=604800000"},
		},
		"a topic for event times": {
			set: map[string]string{timestampType: "CreateTime", timestampBefore: forever, timestampAfter: forever, retentionTime: "-1", cleanupPolicy: "delete"},
		},
		"compacted": {
			set: map[string]string{timestampBefore: forever, timestampAfter: forever, retentionTime: "604800000", cleanupPolicy: "compact"},
		},
		"compacted and deleted": {
			set:  map[string]string{retentionTime: "604800000", cleanupPolicy: "compact,delete"},
			want: []string{"retention.ms=604800000"},
		},
		"old event times": {
			set:  map[string]string{timestampBefore: "86400000", retentionTime: "-1", cleanupPolicy: "delete"},
			want: []string{"message.timestamp.before.max.ms=86400000"},
		},
		"for almost ever": {
			set:  map[string]string{timestampBefore: "9223372036854775806"},
			want: []string{"message.timestamp.before.max.ms=9223372036854775806"},
		},
		"stamped by the broker": {
			set: map[string]string{timestampType: "LogAppendTime", timestampBefore: "1", timestampAfter: "1", retentionTime: "1", cleanupPolicy: "delete"},
		},
	} {
		var got []string
		for _, w := range timeWarnings(c.set) {
			got = append(got, w.setting)
			if w.consequence == "" {
				t.Errorf("%s: %s has no consequence", name, w.setting)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
