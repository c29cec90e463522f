package await_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

func TestUntil(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		happensAfter int
		fails        error
		interrupt    bool
		code         exit.Code
		text, shown  string
	}{
		"has happened already: no progress": {},
		"happens later":                     {happensAfter: 3, shown: "waiting up to 10s for the heartbeat\n"},
		"does not happen": {
			happensAfter: 100, code: exit.Timeout, shown: "waiting up to 10s for the heartbeat\n",
			text: "error: waited 10s for the heartbeat\nerror: the agent is silent\nfix: fleet doctor\n",
		},
		"fails": {fails: broken, code: exit.Failed, text: "error: broken\n"},
		"interrupted": {
			happensAfter: 100, interrupt: true, code: exit.Failed, shown: "waiting up to 10s for the heartbeat\n",
			text: "error: interrupted while waiting for the heartbeat\nfix: fleet doctor\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.interrupt {
					time.AfterFunc(2*time.Second, cancel)
				}
				var shown bytes.Buffer
				looks := 0
				w := await.Wait{For: "the heartbeat", Timeout: 10 * time.Second, Next: []string{"fleet doctor"}, Progress: &shown}
				err := w.Until(ctx, func(context.Context) (bool, string, error) {
					looks++
					return looks > test.happensAfter, "the agent is silent", test.fails
				})
				text := ""
				if err != nil {
					text = exit.Text(err)
				}
				if diff := cmp.Diff(test.text, text); diff != "" || exit.CodeOf(err) != test.code || shown.String() != test.shown {
					t.Errorf("code %d, progress %q, text (-want +got):\n%s", exit.CodeOf(err), shown.String(), diff)
				}
			})
		})
	}
}
