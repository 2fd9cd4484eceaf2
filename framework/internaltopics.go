package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// checkInternal looks at internal topics that somebody else has made: whoever made them may have taken the broker's defaults, by which
// records are deleted or refused for their age. An error names each setting and the command that mends it.
func (a *App) checkInternal(ctx context.Context, lay *layout, internal []internalTopic) error {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	wanted := make(map[string]map[string]*string)
	var names []string
	for _, t := range internal {
		if !slices.Contains(a.made, t) {
			wanted[t.name] = internalConfigs(lay, t)
			names = append(names, t.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	described, err := a.adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		a.log.Debug("the settings of internal topics cannot be read", "err", err)
		return nil
	}
	slices.Sort(names)
	var wrong []string
	for _, name := range names {
		got, err := described.On(name, nil)
		if err != nil || got.Err != nil {
			continue // who may not read settings goes without
		}
		has := make(map[string]string)
		for _, c := range got.Configs {
			has[c.Key] = c.MaybeValue()
		}
		for _, setting := range wrongSettings(has, wanted[name]) {
			wrong = append(wrong, fmt.Sprintf("%s of %s is %s and has to be %s: kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=%s",
				setting.key, name, setting.has, setting.wants, strings.Join(a.set.Brokers, ","), name, setting.key, bracketed(setting.wants)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fatal("internal topics would lose records: %s", strings.Join(wrong, "; "))
}

type wrongSetting struct{ key, has, wants string }

// wrongSettings compares what decides whether records stay. What the broker does not tell is taken to be right.
func wrongSettings(has map[string]string, wants map[string]*string) []wrongSetting {
	var out []wrongSetting
	check := func(key string, ok func(has, wants string) bool) {
		if w, h := wants[key], has[key]; w != nil && h != "" && !ok(h, *w) {
			out = append(out, wrongSetting{key, h, *w})
		}
	}
	check(cleanupPolicy, func(has, wants string) bool { return samePolicy(has, wants) })
	deletes := strings.Contains(has[cleanupPolicy], "delete") && wants[retentionTime] != nil
	if deletes {
		check(retentionTime, func(has, wants string) bool { return has == wants })
		if bytes := has["retention.bytes"]; bytes != "" && bytes != "-1" {
			out = append(out, wrongSetting{"retention.bytes", bytes, "-1"})
		}
	}
	check(timestampType, func(has, wants string) bool { return has == wants })
	return out
}

// samePolicy compares lists in any order.
func samePolicy(a, b string) bool {
	list := func(s string) []string {
		parts := strings.Split(strings.ReplaceAll(s, " ", ""), ",")
		slices.Sort(parts)
		return parts
	}
	return slices.Equal(list(a), list(b))
}

// bracketed is a value as kafka-configs.sh takes it.
func bracketed(value string) string {
	if strings.Contains(value, ",") {
		return "[" + value + "]"
	}
	return value
}
