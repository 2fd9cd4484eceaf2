package framework

import (
	"maps"

	"github.com/headrace/headrace/changelog"
)

// naming maps the names of a plan to the names in the cluster.
type naming struct {
	app         string
	changelog   func(app, store string) string
	repartition func(app, name string) string
}

func namesOf(app string) naming {
	return naming{app: app, changelog: changelog.Topic, repartition: changelog.RepartitionTopic}
}

// internalConfigs is how a topic of the app's is to be configured.
func internalConfigs(lay *layout, t internalTopic) map[string]*string {
	configs := changelog.RepartitionConfigs()
	switch {
	case t.store >= 0:
		configs = changelog.Configs(lay.subs[t.sub].sub.Stores[t.store])
	case t.store == metaRecords:
		configs = changelog.MetaConfigs()
	}
	out := make(map[string]*string, len(configs))
	for k, v := range maps.All(configs) {
		out[k] = &v
	}
	return out
}
