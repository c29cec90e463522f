package hubdocument

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/identity"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const hubURL = "https://hub.example:6443"

// published returns the input when nothing has changed since the document of an hour ago.
func published(changes ...func(*input)) input {
	in := input{
		now: noon, started: true, url: hubURL, ca: []byte("PEM"), lifetime: 24 * time.Hour,
		last: &identity.Document{
			URL: hubURL, CA: []byte("PEM"), Lifetime: 24 * time.Hour, Serial: noon.Unix() - 3600, AddressSerial: noon.Unix() - 7200,
			Tokens: map[string]string{"entry": "sealed"},
		},
		published: map[string]string{"ws": "jwt"}, tokens: map[string]string{"ws": "jwt"},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func TestDecide(t *testing.T) {
	now := noon.Unix()
	tests := map[string]struct {
		in            input
		sign          bool
		serial, since int64
	}{
		"nothing has changed":                    {published(), false, now, now - 7200},
		"the process has started":                {published(func(in *input) { in.started = false }), true, now, now - 7200},
		"nothing is published":                   {published(func(in *input) { in.last = nil }), true, now, now},
		"another URL":                            {published(func(in *input) { in.url = "https://new.example" }), true, now, now},
		"another CA":                             {published(func(in *input) { in.ca = []byte("PEM and another") }), true, now, now},
		"another lifetime":                       {published(func(in *input) { in.lifetime = time.Hour }), true, now, now - 7200},
		"another token":                          {published(func(in *input) { in.tokens["ws"] = "jwt2" }), true, now, now - 7200},
		"another workspace":                      {published(func(in *input) { in.tokens["ws2"] = "jwt" }), true, now, now - 7200},
		"a workspace was removed":                {published(func(in *input) { delete(in.tokens, "ws") }), true, now, now - 7200},
		"the clock was set back":                 {published(func(in *input) { in.now = noon.Add(-24 * time.Hour); in.started = false }), true, now - 3599, now - 7200},
		"the clock was set back, another URL":    {published(func(in *input) { in.now = noon.Add(-24 * time.Hour); in.url = "https://new.example" }), true, now - 3599, now - 3599},
		"two changes in one second":              {published(func(in *input) { in.last.Serial = now; in.url = "https://new.example" }), true, now + 1, now + 1},
		"a document without the address' serial": {published(func(in *input) { in.last.AddressSerial = 0; in.started = false }), true, now, now},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := decide(test.in)
			if out.sign != test.sign || out.document.Serial != test.serial || out.document.AddressSerial != test.since {
				t.Errorf("sign %v, serial %d, address since %d; want %v, %d, %d", out.sign, out.document.Serial, out.document.AddressSerial, test.sign, test.serial, test.since)
			}
			if got := out.document; got.URL != test.in.url || string(got.CA) != string(test.in.ca) || got.Lifetime != test.in.lifetime {
				t.Errorf("document %+v", got)
			}
		})
	}
}

func TestRecoverySpread_FollowsTheNumberOfClusters(t *testing.T) {
	tests := map[string]struct {
		clusters   int
		last, want time.Duration
	}{
		"none":                                {0, 0, 0},
		"1,000: agents have their own":        {1000, 0, 0},
		"1,001: two minutes":                  {1001, 0, 2 * time.Minute},
		"10,000: a minute for each 1,000":     {10_000, 0, 10 * time.Minute},
		"a million: the maximum":              {1_000_000, 0, 10 * time.Minute},
		"just below 1,000: unchanged":         {901, 2 * time.Minute, 2 * time.Minute},
		"100 less than 1,000: shorter":        {900, 2 * time.Minute, 0},
		"just below 3,000: unchanged":         {2950, 4 * time.Minute, 4 * time.Minute},
		"far below: shorter at once":          {1500, 8 * time.Minute, 2 * time.Minute},
		"longer than agents wait: limited":    {100_000, time.Hour, 10 * time.Minute},
		"of another release, in between: set": {1500, 90 * time.Second, 2 * time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := decide(published(func(in *input) { in.clusters, in.last.RecoverySpread = test.clusters, test.last }))
			if got := out.document.RecoverySpread; got != test.want || out.sign != (test.last != test.want) {
				t.Errorf("spread %s, want %s; sign %t", got, test.want, out.sign)
			}
			if test.last == 0 {
				out = decide(published(func(in *input) { in.clusters, in.last = test.clusters, nil }))
				if out.document.RecoverySpread != test.want {
					t.Errorf("first document: spread %s, want %s", out.document.RecoverySpread, test.want)
				}
			}
		})
	}
}

func TestTokens_AreLimited(t *testing.T) {
	many := map[string]string{}
	for i := range maxWorkspaces + 7 {
		many[fmt.Sprintf("ws-%04d", i)] = "jwt"
	}
	long := func(length int) string { return strings.Repeat("x", length) }
	tests := map[string]struct {
		tokens  map[string]string
		want    []string
		leftOut int
	}{
		"none":                     {nil, nil, 0},
		"sorted by workspace":      {map[string]string{"b": "1", "a": "2"}, []string{"a", "b"}, 0},
		"a token that is too long": {map[string]string{"a": long(maxToken + 1), "b": long(maxToken)}, []string{"b"}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, leftOut := fitting(test.tokens)
			if diff := cmp.Diff(test.want, got); diff != "" || leftOut != test.leftOut {
				t.Errorf("left out %d, want %d; workspaces (-want +got):\n%s", leftOut, test.leftOut, diff)
			}
		})
	}
	if got, leftOut := fitting(many); len(got) != maxWorkspaces || leftOut != 7 {
		t.Errorf("%d workspaces, %d left out", len(got), leftOut)
	}
}

// A document with the most and longest tokens has to fit into a ConfigMap.
func TestFullDocument_CanBeSigned(t *testing.T) {
	key, tokens := newKey(t), map[string]string{}
	for i := range maxWorkspaces {
		tokens[fmt.Sprintf("ws-%04d", i)] = strings.Repeat("x", maxTokens/maxWorkspaces)
	}
	for i := range maxTokens / maxToken {
		tokens[fmt.Sprintf("long-%04d", i)] = strings.Repeat("x", maxToken)
	}
	for name, few := range map[string]bool{"many tokens": false, "long tokens": true} {
		t.Run(name, func(t *testing.T) {
			those := map[string]string{}
			for workspace, token := range tokens {
				if strings.HasPrefix(workspace, "long") == few {
					those[workspace] = token
				}
			}
			out := decide(published(func(in *input) { in.tokens, in.ca = those, []byte(strings.Repeat("C", 8<<10)) }))
			if len(out.workspaces) < len(those)-1 {
				t.Fatalf("only %d of %d tokens fit", len(out.workspaces), len(those))
			}
			for _, workspace := range out.workspaces {
				if err := out.document.AddToken(key.WorkspaceKey(workspace), those[workspace]); err != nil {
					t.Fatal(err)
				}
			}
			text, err := key.SignDocument(out.document)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d tokens in %d bytes", len(out.workspaces), len(text))
		})
	}
}
