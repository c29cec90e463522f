package contentreaders

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
)

// BenchmarkHandle_OneMoreAccount measures the cost of another agent when its binding has as many subjects as with
// 10,000 clusters: one write and one pass over the result.
func BenchmarkHandle_OneMoreAccount(b *testing.B) {
	hub := hubtest.New(b)
	hub.App.Log = slog.New(slog.DiscardHandler)
	if err := Register(b.Context(), hub.App); err != nil {
		b.Fatal(err)
	}
	hub.Put(cluster())
	add := func(i int) {
		name := fmt.Sprintf("request-%06d", i)
		hub.Put(request(name), account(name))
	}
	handle := func() {
		if err := hub.Handle(kind, shared); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 312 {
		add(i)
	}
	handle()
	b.ReportAllocs()
	next := 1000
	for b.Loop() {
		b.StopTimer()
		hub.Sync()
		next++
		add(next)
		b.StartTimer()
		for range 2 {
			handle()
		}
	}
}

// BenchmarkHandle_Unchanged measures a pass that writes nothing. Each write causes one, by its event.
func BenchmarkHandle_Unchanged(b *testing.B) {
	hub := hubtest.New(b)
	hub.App.Log = slog.New(slog.DiscardHandler)
	if err := Register(b.Context(), hub.App); err != nil {
		b.Fatal(err)
	}
	hub.Put(cluster())
	for i := range 312 {
		name := fmt.Sprintf("request-%06d", i)
		hub.Put(request(name), account(name))
	}
	b.ReportAllocs()
	for range 2 {
		if err := hub.Handle(kind, shared); err != nil {
			b.Fatal(err)
		}
		hub.Sync()
	}
	for b.Loop() {
		if err := hub.Handle(kind, shared); err != nil {
			b.Fatal(err)
		}
	}
}
