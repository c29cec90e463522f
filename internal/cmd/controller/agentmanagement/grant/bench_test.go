package grant

import (
	"log/slog"
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
)

func BenchmarkDone(b *testing.B) {
	hub := hubtest.New(b)
	hub.App.Log = slog.New(slog.DiscardHandler)
	if err := Register(b.Context(), hub.App); err != nil {
		b.Fatal(err)
	}
	hub.Put(request(), cluster(), asked())
	for range 3 {
		if err := hub.Handle(kindRequest, "ws/r1"); err != nil {
			b.Fatal(err)
		}
		catchUp(b, hub)
	}
	hub.Requests()
	b.ReportAllocs()
	for b.Loop() {
		if err := hub.Handle(kindRequest, "ws/r1"); err != nil {
			b.Fatal(err)
		}
	}
	if got := hub.Requests(); len(got) > 0 {
		b.Fatal(got)
	}
}
