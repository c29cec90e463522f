package footprint

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLimit_RisesWithMemoryInUse(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		// live is what is in use at each check.
		live []uint64
		want []int64
	}{
		"little in use: minimum":              {[]uint64{6 * mib, 6 * mib}, []int64{36, 36, 36}},
		"much in use at one check: minimum":   {[]uint64{6 * mib, 30 * mib, 6 * mib}, []int64{36, 36, 36, 36}},
		"much in use at two checks: rises":    {[]uint64{6 * mib, 40 * mib, 40 * mib}, []int64{36, 36, 36, 72}},
		"less in use: falls":                  {[]uint64{40 * mib, 40 * mib, 20 * mib}, []int64{36, 36, 72, 42}},
		"no counts from the runtime: minimum": {[]uint64{0, 0}, []int64{36, 36, 36}},
		"before the first check: minimum":     {nil, []int64{36}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ticks, ended := make(chan time.Time), make(chan struct{})
			looks, got := 0, []int64{}
			go func() {
				defer close(ended)
				limit(ctx, ticks, func() uint64 { looks++; return test.live[looks-1] }, func(bytes int64) { got = append(got, bytes/mib) })
			}()
			for range test.live {
				ticks <- time.Time{}
			}
			cancel()
			<-ended
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("limits in MiB (-want +got):\n%s", diff)
			}
		})
	}
}
