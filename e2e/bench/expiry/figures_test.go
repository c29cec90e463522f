package expiry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
)

// at returns times, in milliseconds after a fixed one.
func at(millis ...int) (times []time.Time) {
	for _, m := range millis {
		times = append(times, time.Unix(1000, 0).Add(time.Duration(m)*time.Millisecond))
	}
	return times
}

func TestMostInASecond(t *testing.T) {
	for name, test := range map[string]struct {
		times []time.Time
		want  int
	}{
		"no request":                       {nil, 0},
		"one request":                      {at(500), 1},
		"a second apart":                   {at(0, 1000, 2000), 1},
		"less than a second apart":         {at(0, 999), 2},
		"fullest second begins in between": {at(0, 600, 700, 1500, 1590, 1600, 5000), 4},
		"all at once":                      {at(7, 7, 7, 7), 4},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mostInASecond(test.times); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// event returns a request that was received at a time.
func event(user, verb, resource string, code, millis int) audit.Event {
	e := audit.Event{Verb: verb, Stage: "ResponseComplete", Received: at(millis)[0]}
	e.User.Username, e.Object.Resource, e.Response.Code = user, resource, code
	return e
}

func TestIsRecovery_IsARegistrationOfTheRecoveryAccount(t *testing.T) {
	const account = "system:serviceaccount:fleet-default:"
	for name, test := range map[string]struct {
		event audit.Event
		want  bool
	}{
		"recovery request":             {event(account+"fleet-recovery", "create", "clusterregistrations", 201, 0), true},
		"refused recovery request":     {event(account+"fleet-recovery", "create", "clusterregistrations", 429, 0), true},
		"registration with a token":    {event(account+"t1-uid", "create", "clusterregistrations", 201, 0), false},
		"wait for the answer":          {event(account+"fleet-recovery", "get", "secrets", 200, 0), false},
		"account with a similar name":  {event(account+"no-fleet-recovery", "create", "clusterregistrations", 201, 0), false},
		"the controller writes status": {event("admin", "update", "clusterregistrations", 200, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isRecovery(test.event, "fleet-recovery"); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestFigures_OfRenewals(t *testing.T) {
	counts := audit.Counts{
		{Identity: audit.Request, Verb: "create", Resource: "serviceaccounts/token"}: {Requests: 12, Refused: 2},
		{Identity: audit.Request, Verb: "list", Resource: "bundledeployments"}:       {Requests: 10},
		{Identity: audit.Request, Verb: "get", Resource: "secrets"}:                  {Requests: 9},
		{Identity: audit.Request, Verb: "get", Resource: "configmaps"}:               {Requests: 9},
		// not because of a renewal
		{Identity: audit.Request, Verb: "patch", Resource: "clusters/status"}:           {Requests: 500},
		{Identity: audit.Request, Verb: "watch", Resource: "bundledeployments"}:         {Requests: 50},
		{Identity: audit.Controller, Verb: "create", Resource: "serviceaccounts/token"}: {Requests: 3},
	}
	var got Figures
	got.renewing(counts, 21)
	want := Figures{Renewals: 10, OnHub: 4, Downstream: 2.1, PerDay: 8, DownstreamPerDay: 4.2}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = Figures{}
	got.renewing(audit.Counts{}, 7)
	if diff := cmp.Diff(Figures{}, got); diff != "" {
		t.Errorf("without a renewal (-want +got):\n%s", diff)
	}
}

func TestFigures_OfTheReturn(t *testing.T) {
	const user = "system:serviceaccount:fleet-default:fleet-recovery"
	recovery := func(code, millis int) audit.Event { return event(user, "create", "clusterregistrations", code, millis) }
	var got Figures
	got.returning(at(0)[0], at(40_000, 12_500, 20_000), []audit.Event{recovery(201, 30_000), recovery(429, 12_000), recovery(201, 12_900)})
	want := Figures{Returned: 40, ReturnedHalf: 20, Recoveries: 3, Refused: 1, Most: 2, First: 12, Last: 30}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = Figures{}
	got.returning(at(0)[0], nil, nil)
	if diff := cmp.Diff(Figures{}, got); diff != "" {
		t.Errorf("nobody (-want +got):\n%s", diff)
	}
}

func TestExpires_WhenTheOutageIsLonger(t *testing.T) {
	for outage, want := range map[time.Duration]bool{time.Second: false, 11 * time.Minute: false, 11*time.Minute + time.Second: true} {
		if got := (Times{Lifetime: 10 * time.Minute, Outage: outage}).expires(); got != want {
			t.Errorf("after %s: %t", outage, got)
		}
	}
}
