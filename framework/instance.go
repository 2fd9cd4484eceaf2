package framework

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/state"
)

// identify takes hold of the place where state is kept, if it is kept, and gives this process its name: the one in the Config, else
// the one that belongs to the place, else a random one. It returns what lets go of the place.
//
// A name that is there again after a restart makes the workers static members of the group.
func (a *App) identify() (release func() error, err error) {
	release = func() error { return nil }
	kept := ""
	if durable, ok := a.set.State.(state.Durable); ok {
		// Also if the name is not needed: of two processes in one place, the second has to stop here, and not when it opens a task.
		if kept, err = durable.Instance(); err != nil {
			return nil, fmt.Errorf("framework: %w", err)
		}
		release = func() error {
			if err := durable.Close(); err != nil {
				return fmt.Errorf("framework: %w", err)
			}
			return nil
		}
	}
	switch {
	case a.set.Instance != "":
		a.instance, a.static = a.set.Instance, true
	case kept != "":
		a.instance, a.static = kept, true
	default:
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		a.instance = hex.EncodeToString(b[:])
	}
	a.log = a.log.With("instance", a.instance)
	return release, nil
}

// memberName is the worker's name as a static member.
func (w *worker) memberName() string { return fmt.Sprintf("%s-%d", w.app.instance, w.id) }

// leave closes the worker's session for good, and takes a static member out of the group, so that nobody waits for it.
func (w *worker) leave() {
	if w.session != nil {
		w.memberID, _ = w.session.Client().GroupMetadata()
		w.session.close(drainTimeout)
		w.session = nil
	}
	if !w.app.static || w.app.set.KeepMembership || w.memberID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	began := time.Now()
	if err := leaveStatic(ctx, w.app.client, w.app.set.AppID, w.memberName(), w.memberID); err != nil {
		w.log.Warn("the group does not know that this member has left: it waits for its session to time out",
			"member", w.memberName(), "timeout", w.app.set.SessionTimeout, "err", err, "after", time.Since(began))
	}
}

// leaveStatic takes a static member out of the group. That somebody else has the name by now, or nobody, is as good.
func leaveStatic(ctx context.Context, cl *kgo.Client, group, name, memberID string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	m := kmsg.NewLeaveGroupRequestMember()
	// With both, a successor under the same name stays.
	m.InstanceID, m.MemberID = &name, memberID
	m.Reason = kmsg.StringPtr("the instance stops")
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	codes := []int16{resp.ErrorCode}
	for i := range resp.Members {
		codes = append(codes, resp.Members[i].ErrorCode)
	}
	for _, code := range codes {
		err := kerr.ErrorForCode(code)
		if err != nil && !errors.Is(err, kerr.UnknownMemberID) && !errors.Is(err, kerr.FencedInstanceID) {
			return err
		}
	}
	return nil
}
