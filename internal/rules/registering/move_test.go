package registering

import (
	"testing"
	"time"
)

// The bootstrap secret has another address or another CA than the stored identity.
func TestDecide_MovedHub(t *testing.T) {
	const long = time.Hour
	there := agentBootstrap("https://there.example:6443")
	here := agentBootstrap(agentHub)
	otherCA := agentCA("ca-2")
	dropped := Outcome{Stage: Use, DropBootstrap: true}
	tests := map[string]struct {
		in   Input
		want Outcome
		err  error
	}{
		// The identity works at its own address.
		"identity works here: used, and tried at the other address": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there),
			want: Outcome{Stage: Use, ProbeNewAddress: true},
		},
		"another CA: identity is used, and tried with that CA": {
			in:   agentState(agentStored(Accepted, 0), agentServing, here, otherCA),
			want: Outcome{Stage: Use, ProbeNewAddress: true},
		},
		"identity not yet tried here: it is tried here first": {
			in:   agentState(agentStored("", 0), agentServing, there),
			want: Outcome{Stage: Use, ProbeStored: true},
		},
		"identity works there: kubeconfig is rewritten and bootstrap secret dropped": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there, agentMoved(Accepted, 0)),
			want: Outcome{Stage: Use, Rewrite: true, DropBootstrap: true},
		},
		"first 401 there: does not count yet": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there, agentMoved(Rejected, RejectionPatience-1)),
			want: Outcome{Stage: Use, ProbeNewAddress: true},
		},
		"lasting 401 there: bootstrap secret is not needed": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there, agentMoved(Rejected, RejectionPatience)),
			want: dropped,
		},
		"lasting wrong CA there: bootstrap secret is not needed": {
			in:   agentState(agentStored(Accepted, 0), agentServing, here, otherCA, agentMoved(Untrusted, RejectionPatience)),
			want: dropped,
		},
		"no answer there: it is tried again while the bootstrap secret exists": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there, agentMoved(Unanswered, long)),
			want: Outcome{Stage: Use, ProbeNewAddress: true},
		},

		// The identity does not work at its own address.
		"identity rejected here: tried there before a new request": {
			in:   agentState(agentStored(Rejected, 0), there),
			want: Outcome{Stage: Await, Awaited: AnswerElsewhere, ProbeStored: true, ProbeNewAddress: true},
		},
		"hub untrusted here: identity is tried there": {
			in:   agentState(agentStored(Untrusted, 0), here, otherCA),
			want: Outcome{Stage: Await, Awaited: AnswerElsewhere, ProbeStored: true, ProbeNewAddress: true},
		},
		"first 401 while serving: identity stays in use": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentServing, there, agentMoved(Unanswered, long)),
			want: Outcome{Stage: Use, ProbeStored: true, ProbeNewAddress: true},
		},
		"first untrusted certificate while serving: identity stays in use": {
			in:   agentState(agentStored(Untrusted, 0), agentServing, here, otherCA),
			want: Outcome{Stage: Use, ProbeStored: true, ProbeNewAddress: true},
		},
		"identity works with the new CA: it is kept": {
			in:   agentState(agentStored(Untrusted, long), here, otherCA, agentMoved(Accepted, 0)),
			want: Outcome{Stage: Use, Rewrite: true, DropBootstrap: true},
		},
		"identity rejected here and there: replaced at once": {
			in:   agentState(agentStored(Rejected, 0), there, agentMoved(Rejected, 0)),
			want: Outcome{Stage: Request},
		},
		"identity in use and rejected there: first 401 here does not count": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentServing, there, agentMoved(Rejected, long)),
			want: Outcome{Stage: Use, ProbeStored: true},
		},
		"hub untrusted here and there: the token decides": {
			in:   agentState(agentStored(Untrusted, long), here, otherCA, agentMoved(Untrusted, long), agentTokenSaid(Untrusted, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrUntrustedCA,
		},
		"rejected here, no answer there: both are tried again": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentServing, there, agentMoved(Unanswered, long)),
			want: Outcome{Stage: Await, Awaited: AnswerElsewhere, ProbeStored: true, ProbeNewAddress: true},
		},

		// The hub does not answer at the identity's own address.
		"no answer anywhere while serving: both addresses are tried": {
			in:   agentState(agentStored(Unanswered, long), agentServing, there, agentMoved(Unanswered, long)),
			want: Outcome{Stage: Use, ProbeStored: true, ProbeNewAddress: true},
		},
		"no answer anywhere at start: both addresses are tried": {
			in:   agentState(agentStored(Unanswered, 0), there),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true, ProbeNewAddress: true},
		},
		"silent hub answers at the new address: identity is kept": {
			in:   agentState(agentStored(Unanswered, long), agentServing, there, agentMoved(Accepted, 0)),
			want: Outcome{Stage: Use, Rewrite: true, DropBootstrap: true},
		},
		"wrong CA at the same address: the silent hub is awaited": {
			in:   agentState(agentStored(Unanswered, long), here, otherCA, agentMoved(Untrusted, long)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true},
		},

		// The bootstrap secret names the same hub.
		"same address, spelled differently: same hub": {
			in:   agentState(agentStored(Accepted, 0), agentBootstrap("https://HUB.example:6443/")),
			want: dropped,
		},
		"same CA with another line end: same hub": {
			in:   agentState(agentStored(Accepted, 0), here, agentCA("ca-1\n")),
			want: dropped,
		},
		"CA in the bootstrap secret, system-store: same hub": {
			in:   agentState(agentStored(Accepted, 0), agentStoredCA(""), here, agentSystemStore),
			want: dropped,
		},
		"stored identity without CA, not system-store: hub has moved": {
			in:   agentState(agentStored(Accepted, 0), agentStoredCA(""), here),
			want: Outcome{Stage: Use, ProbeNewAddress: true},
		},
		"system-store, stored identity has another CA: hub has moved": {
			in:   agentState(agentStored(Accepted, 0), here, otherCA, agentSystemStore),
			want: Outcome{Stage: Use, ProbeNewAddress: true},
		},
		"configuration is invalid: other address is ignored": {
			in:   agentState(agentStored(Accepted, 0), there, agentConfigProblem),
			want: dropped,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { expectStep(t, test.in, test.want, test.err) })
	}
}

func TestSameServer(t *testing.T) {
	tests := map[string]struct {
		a, b string
		want bool
	}{
		"itself":                          {"https://hub:6443", "https://hub:6443", true},
		"a slash at the end":              {"https://hub:6443", "https://hub:6443/", true},
		"capitals":                        {"https://Hub.Example", "https://hub.example", true},
		"the default port":                {"https://hub", "https://hub:443", true},
		"an IPv6 address":                 {"https://[FD00::1]:6443", "https://[fd00::1]:6443/", true},
		"another IPv6 address":            {"https://[fd00::1]:6443", "https://[fd00::2]:6443", false},
		"an IPv6 address that has a port": {"https://[fd00::1]:443", "https://[fd00::1]", true},
		"another host":                    {"https://hub", "https://hub2", false},
		"another port":                    {"https://hub:6443", "https://hub:6444", false},
		"another path":                    {"https://hub/k8s/clusters/local", "https://hub", false},
		"the same path":                   {"https://hub/k8s/", "https://hub:443/k8s", true},
		"invalid URLs that are equal":     {"::", "::", true},
		"an invalid URL":                  {"::", "https://hub", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := sameServer(test.a, test.b); got != test.want {
				t.Errorf("same: %t, want %t", got, test.want)
			}
			if got := sameServer(test.b, test.a); got != test.want {
				t.Errorf("the other way round: %t, want %t", got, test.want)
			}
		})
	}
}
