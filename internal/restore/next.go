package restore

import (
	"context"
	"fmt"
)

// Next returns the offset of the first committed record or transaction marker at from or behind it, and to if there is none below to.
// It tells what a consumer cannot: that nothing will come, because what was there has been compacted away or trimmed. What cannot be
// told yet, because a transaction is open there, counts as something.
func (r *Restorer) Next(ctx context.Context, topic string, part int32, from, to int64) (int64, error) {
	p := partition{topic, part}
	next := to
	err := r.retry(ctx, func() error {
		places, err := r.places(ctx, []partition{p})
		if err != nil {
			return err
		}
		starts, err := r.offsets(ctx, []partition{p}, -2)
		if err != nil {
			return err
		}
		next, err = r.next(ctx, p, places[p], max(from, starts[p]), to)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("restore: look for records in %s[%d] from %d to %d: %w", topic, part, from, to, err)
	}
	return next, nil
}

func (r *Restorer) next(ctx context.Context, p partition, at place, from, to int64) (int64, error) {
	for from < to {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		got, err := r.fetch(ctx, p, at, from, -1, to)
		<-r.slots
		switch {
		case err != nil:
			return 0, err
		case len(got.records) > 0:
			return min(got.records[0].Offset, to), nil
		case got.err != nil:
			return 0, got.err
		case got.next > from:
			from = got.next
		case got.stable < to:
			return from, nil
		default:
			return to, nil
		}
	}
	return to, nil
}
