//go:build synctests

package eos_test

import (
	"sync"
	"time"

	"github.com/headrace/headrace/internal/wiretap"
)

// hold holds frames back, once it is armed and has begun, until its time is over.
type hold struct {
	mu    sync.Mutex
	d     time.Duration
	until time.Time
}

func (h *hold) arm(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.d = d
}

// begin starts the time, if it is armed and has not begun.
func (h *hold) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.d > 0 && h.until.IsZero() {
		h.until = time.Now().Add(h.d)
	}
}

func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		return 0
	}
	return time.Until(h.until)
}

func (h *hold) wait(f wiretap.Frame) {
	if d := h.left(); d > 0 {
		f.Stall(d)
	}
}

func (h *hold) begun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.until.IsZero()
}

func (h *hold) over() bool { return h.begun() && h.left() <= 0 }
