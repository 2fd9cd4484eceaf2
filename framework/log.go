package framework

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLogger hands the client's log on. The client calls normal what people would worry about, so what it calls info is debug
// here. What it warns of again and again, as of a broker that cannot be reached, is a warning now and then, and else debug.
type clientLogger struct {
	log   *slog.Logger
	quiet *quiet
}

func (l clientLogger) Level() kgo.LogLevel {
	switch {
	case l.log.Enabled(context.Background(), slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.log.Enabled(context.Background(), slog.LevelWarn):
		return kgo.LogLevelWarn
	}
	return kgo.LogLevelError
}

func (l clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	switch level {
	case kgo.LogLevelError, kgo.LogLevelWarn:
		if ok, unsaid := l.quiet.say(msg, time.Now()); ok {
			to = slog.LevelWarn
			if unsaid > 0 {
				keyvals = append(keyvals[:len(keyvals):len(keyvals)], "unsaid", unsaid)
			}
		}
	}
	l.log.Log(context.Background(), to, "kafka client: "+msg, keyvals...)
}

// repeatEvery is how often the log has the same warning.
const repeatEvery = 10 * time.Second

// quiet keeps the log from filling with what happens again and again. It is safe for concurrent use.
type quiet struct {
	mu   sync.Mutex
	said map[string]*saying
}

type saying struct {
	at   time.Time
	more int
}

// say tells whether something may be logged now, and how often it was not since it last was.
func (q *quiet) say(what string, now time.Time) (ok bool, unsaid int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t := q.said[what]; t != nil && now.Sub(t.at) < repeatEvery {
		t.more++
		return false, 0
	} else if t != nil {
		unsaid = t.more
	}
	if q.said == nil {
		q.said = make(map[string]*saying)
	}
	if len(q.said) > 100 {
		maps.DeleteFunc(q.said, func(_ string, t *saying) bool { return now.Sub(t.at) >= repeatEvery })
	}
	q.said[what] = &saying{at: now}
	return true, unsaid
}
