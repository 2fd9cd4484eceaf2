package framework

import "time"

// publishIfDue lets Snapshot see where the worker is, when it has time or it is a while ago.
func (w *worker) publishIfDue() {
	now := time.Now()
	w.remark(now)
	if w.idle || now.Sub(w.published) >= publishEvery {
		w.publish(now)
	}
	if w.id == 0 && now.Sub(w.swept) >= idleState/4 {
		w.swept = now
		w.aside.Go(func() { // a disk may take its time
			if err := w.app.registry.sweep(now); err != nil {
				w.log.Warn("idle state is not closed well", "err", err)
			}
		})
	}
}

func (w *worker) publish(now time.Time) {
	w.published = now
	if w.session != nil && w.state != Stopped {
		switch {
		case w.version == 0, w.isStranger():
			w.setState(Joining)
		case len(w.running) < len(w.tasks):
			w.setState(Restoring)
		default:
			w.setState(Running)
		}
	}
	ws := &workerSnapshot{
		status: WorkerStatus{
			ID: w.id, State: w.state, Since: w.since, Tasks: len(w.tasks), Err: w.lastErr, ErrAt: w.trouble.last, FailingSince: w.trouble.first,
		},
		tally: w.tally.clone(),
	}
	for _, id := range w.ids() {
		if b := w.tasks[id].build; b != nil {
			ws.restoring = append(ws.restoring, b.progress.status(id, w.id))
		}
	}
	for _, t := range w.running {
		t.measure(now)
		ws.tasks = append(ws.tasks, taskStatus(w.id, t))
	}
	w.app.states[w.id].Store(ws)
}

func (w *worker) isStranger() bool {
	_, is := w.session.owns.stranger()
	return is
}
