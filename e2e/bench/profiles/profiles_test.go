package profiles

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

// profileOf returns a profile with these stacks, each with the called function first, and its time in milliseconds.
func profileOf(t *testing.T, stacks map[string]int64) *profile.Profile {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
	}
	at := map[string]*profile.Location{}
	for stack, millis := range stacks {
		sample := &profile.Sample{Value: []int64{millis / 10, millis * 1e6}}
		for name := range strings.FieldsSeq(stack) {
			if at[name] == nil {
				id := uint64(len(at) + 1)
				f := &profile.Function{ID: id, Name: name}
				at[name] = &profile.Location{ID: id, Line: []profile.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, at[name])
			}
			sample.Location = append(sample.Location, at[name])
		}
		p.Sample = append(p.Sample, sample)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTopOf(t *testing.T) {
	tests := map[string]struct {
		stacks map[string]int64
		want   Top
	}{
		"nothing was done": {nil, Top{}},
		"a function and what it calls": {map[string]int64{"read": 300, "decode read": 500, "write": 200}, Top{
			Flat:       []Function{{"decode", 50, 50}, {"read", 30, 80}, {"write", 20, 20}},
			Cumulative: []Function{{"read", 30, 80}, {"decode", 50, 50}, {"write", 20, 20}},
		}},
		"one that calls itself counts once": {map[string]int64{"visit visit visit": 500, "leaf visit visit": 500}, Top{
			Flat:       []Function{{"leaf", 50, 50}, {"visit", 50, 100}},
			Cumulative: []Function{{"visit", 50, 100}, {"leaf", 50, 50}},
		}},
		"handlers around one handler are left out": {map[string]int64{"a handle authorize serve": 300, "b handle authorize serve": 300, "check authorize serve": 400, "idle": 1000}, Top{
			Flat:       []Function{{"idle", 50, 50}, {"check", 20, 20}, {"a", 15, 15}, {"b", 15, 15}, {"authorize", 0, 50}, {"handle", 0, 30}, {"serve", 0, 50}},
			Cumulative: []Function{{"authorize", 0, 50}, {"idle", 50, 50}, {"handle", 0, 30}, {"check", 20, 20}, {"a", 15, 15}, {"b", 15, 15}},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, TopOf(profileOf(t, test.stacks))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTopOf_ManyFunctions_NamesTen(t *testing.T) {
	stacks := map[string]int64{}
	for _, name := range strings.Split("abcdefghijklmnop", "") {
		stacks[name] = 10
	}
	if top := TopOf(profileOf(t, stacks)); len(top.Flat) != topmost || len(top.Cumulative) != topmost || top.Flat[0].Flat != 6.25 {
		t.Errorf("%+v", top)
	}
}

// serve serves a profile as a process does.
func serve(t *testing.T, handler http.HandlerFunc) Process {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return Process{Name: "controller", URL: server.URL, Client: server.Client()}
}

func TestTake_KeepsTheProfileAndNamesTheDearest(t *testing.T) {
	var encoded bytes.Buffer
	if err := profileOf(t, map[string]int64{"decode main": 750, "encode main": 250}).Write(&encoded); err != nil {
		t.Fatal(err)
	}
	var asked string
	process := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write(encoded.Bytes())
	})
	directory := filepath.Join(t.TempDir(), "new")
	taken, err := Take(t.Context(), []Process{process}, 15*time.Second, directory, "at-500-clusters")
	if err != nil || len(taken) != 1 {
		t.Fatalf("%v, %d profiles", err, len(taken))
	}
	if asked != "/debug/pprof/profile?seconds=15" {
		t.Errorf("asked for %s", asked)
	}
	if kept, err := os.ReadFile(filepath.Join(directory, "controller-at-500-clusters.pprof")); err != nil || !bytes.Equal(kept, encoded.Bytes()) {
		t.Errorf("kept %d bytes, %v", len(kept), err)
	}
	want := "controller: 1.0 s of processor time, " + taken[0].File + `
    flat%     cum%  function, by the time of a function with the functions it calls
     0.00   100.00  main
    75.00    75.00  decode
    25.00    25.00  encode
    flat%     cum%  function, by the time of a function itself
    75.00    75.00  decode
    25.00    25.00  encode
     0.00   100.00  main`
	if diff := cmp.Diff(want, taken[0].String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTake_SaysWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no profiling here", http.StatusForbidden) },
			"taking a profile of controller: requesting the profile: 403 Forbidden: no profiling here"},
		"no profile": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }, "taking a profile of controller: decoding the profile: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Take(t.Context(), []Process{serve(t, test.handler)}, time.Second, t.TempDir(), "x")
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
