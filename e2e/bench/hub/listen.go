package hub

import (
	"context"
	"fmt"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
)

// pollEvery is the interval between two reads of the audit log.
const pollEvery = 250 * time.Millisecond

// Skip drops the requests since the last call of a method that counts them.
func (h *Hub) Skip() error {
	_, err := h.log.Next()
	return err
}

// UntilQuiet counts the requests since now, or since the last call, until there was no write for a while.
func (h *Hub) UntilQuiet(ctx context.Context) (audit.Counts, error) {
	return h.Count(ctx, h.IsQuiet)
}

// Count counts requests until done returns true. done gets the time of the last write, initially now.
func (h *Hub) Count(ctx context.Context, done func(lastWrite time.Time) bool) (audit.Counts, error) {
	counts := audit.Counts{}
	err := h.Listen(ctx, func(e audit.Event) { counts.Add(h.Whose.Who(e), e) }, done)
	return counts, err
}

// EventsUntilQuiet returns all events since now, or since the last call, until there was no write for a while.
func (h *Hub) EventsUntilQuiet(ctx context.Context) (events []audit.Event, err error) {
	err = h.Listen(ctx, func(e audit.Event) { events = append(events, e) }, h.IsQuiet)
	return events, err
}

// IsQuiet reports whether there was no write for a while.
func (h *Hub) IsQuiet(lastWrite time.Time) bool { return h.Clock().Sub(lastWrite) >= h.Quiet }

// Pass waits, and drops the counts of that time.
func (h *Hub) Pass(ctx context.Context, d time.Duration) error {
	until := h.Clock().Add(d)
	_, err := h.Count(ctx, func(time.Time) bool { return !h.Clock().Before(until) })
	if err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	return nil
}

// Listen passes events to hear until done returns true. done gets the time of the last write, initially now.
func (h *Hub) Listen(ctx context.Context, hear func(audit.Event), done func(lastWrite time.Time) bool) error {
	ctx, cancel := context.WithTimeout(ctx, h.Patience)
	defer cancel()
	last := h.Clock()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		events, err := h.log.Next()
		if err != nil {
			return err
		}
		for _, e := range events {
			hear(e)
			if e.Kind(h.Whose.Who(e)).IsWrite() && e.Received.After(last) {
				last = e.Received
			}
		}
		if done(last) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of writes: %w", context.Cause(ctx))
		}
	}
}

// Every calls done repeatedly until it returns true or an error.
func Every(ctx context.Context, pause time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
