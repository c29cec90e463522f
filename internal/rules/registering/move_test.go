package registering

import (
	"testing"
	"time"
)

// A bootstrap secret with another address, or another CA, beside a stored identity.
func TestNextWhereTheHubHasMoved(t *testing.T) {
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
		// The identity works where it is.
		"the identity is asked about at the other address, and used meanwhile": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there),
			want: Outcome{Stage: Use, AskElsewhere: true},
		},
		"so it is with another CA": {
			in:   agentState(agentStored(Accepted, 0), agentServing, here, otherCA),
			want: Outcome{Stage: Use, AskElsewhere: true},
		},
		"but only once it is known to work": {
			in:   agentState(agentStored("", 0), agentServing, there),
			want: Outcome{Stage: Use, AskAgain: true},
		},
		"one that works there is written down, and the bootstrap secret has done its work": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there, agentMoved(Accepted, 0)),
			want: Outcome{Stage: Use, Rewrite: true, DropBootstrap: true},
		},
		"a first 401 there does not count yet": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there, agentMoved(Rejected, RejectionPatience-1)),
			want: Outcome{Stage: Use, AskElsewhere: true},
		},
		"one that lasts makes the bootstrap secret one that is not needed": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there, agentMoved(Rejected, RejectionPatience)),
			want: dropped,
		},
		"and so does a CA that has not signed what is there": {
			in:   agentState(agentStored(Accepted, 0), agentServing, here, otherCA, agentMoved(Untrusted, RejectionPatience)),
			want: dropped,
		},
		"an address that does not answer is asked for as long as the bootstrap secret is there": {
			in:   agentState(agentStored(Accepted, 0), agentServing, there, agentMoved(Unanswered, long)),
			want: Outcome{Stage: Use, AskElsewhere: true},
		},

		// It does not.
		"an identity that is rejected here is asked about there before another is asked for": {
			in:   agentState(agentStored(Rejected, 0), there),
			want: Outcome{Stage: Await, Awaited: AnswerElsewhere, AskAgain: true, AskElsewhere: true},
		},
		"so it is when the hub shows a certificate of another CA": {
			in:   agentState(agentStored(Untrusted, 0), here, otherCA),
			want: Outcome{Stage: Await, Awaited: AnswerElsewhere, AskAgain: true, AskElsewhere: true},
		},
		"a first 401 takes none out of use": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentServing, there, agentMoved(Unanswered, long)),
			want: Outcome{Stage: Use, AskAgain: true, AskElsewhere: true},
		},
		"nor does a first certificate of another CA": {
			in:   agentState(agentStored(Untrusted, 0), agentServing, here, otherCA),
			want: Outcome{Stage: Use, AskAgain: true, AskElsewhere: true},
		},
		"one the new CA makes work again survives": {
			in:   agentState(agentStored(Untrusted, long), here, otherCA, agentMoved(Accepted, 0)),
			want: Outcome{Stage: Use, Rewrite: true, DropBootstrap: true},
		},
		"one that is rejected there, too, is replaced at once": {
			in:   agentState(agentStored(Rejected, 0), there, agentMoved(Rejected, 0)),
			want: Outcome{Stage: Request},
		},
		"but while it is in use the first 401 does not count": {
			in:   agentState(agentStored(Rejected, RejectionPatience-1), agentServing, there, agentMoved(Rejected, long)),
			want: Outcome{Stage: Use, AskAgain: true},
		},
		"and so is one whose hub is trusted neither way, which ends as the token says": {
			in:   agentState(agentStored(Untrusted, long), here, otherCA, agentMoved(Untrusted, long), agentTokenSaid(Untrusted, RejectionPatience)),
			want: Outcome{Stage: GiveUp}, err: ErrUntrustedCA,
		},
		"the address that does not answer is waited for, and so is a change of mind here": {
			in:   agentState(agentStored(Rejected, RejectionPatience), agentServing, there, agentMoved(Unanswered, long)),
			want: Outcome{Stage: Await, Awaited: AnswerElsewhere, AskAgain: true, AskElsewhere: true},
		},

		// Nobody knows.
		"a silent hub is asked for at both addresses, and what works goes on": {
			in:   agentState(agentStored(Unanswered, long), agentServing, there, agentMoved(Unanswered, long)),
			want: Outcome{Stage: Use, AskAgain: true, AskElsewhere: true},
		},
		"also by an agent that starts": {
			in:   agentState(agentStored(Unanswered, 0), there),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true, AskElsewhere: true},
		},
		"a hub that has moved while it was silent keeps its agents": {
			in:   agentState(agentStored(Unanswered, long), agentServing, there, agentMoved(Accepted, 0)),
			want: Outcome{Stage: Use, Rewrite: true, DropBootstrap: true},
		},
		"with a CA that does not fit, at the same address, the silent hub is waited for": {
			in:   agentState(agentStored(Unanswered, long), here, otherCA, agentMoved(Untrusted, long)),
			want: Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true},
		},

		// No news.
		"the same address in other words is no news": {
			in:   agentState(agentStored(Accepted, 0), agentBootstrap("https://HUB.example:6443/")),
			want: dropped,
		},
		"nor is the same CA with another line end": {
			in:   agentState(agentStored(Accepted, 0), here, agentCA("ca-1\n")),
			want: dropped,
		},
		"nor a CA where the system's roots are used": {
			in:   agentState(agentStored(Accepted, 0), agentStoredCA(""), here, agentSystemStore),
			want: dropped,
		},
		"it is where they no longer are": {
			in:   agentState(agentStored(Accepted, 0), agentStoredCA(""), here),
			want: Outcome{Stage: Use, AskElsewhere: true},
		},
		"and where another CA was used instead of them": {
			in:   agentState(agentStored(Accepted, 0), here, otherCA, agentSystemStore),
			want: Outcome{Stage: Use, AskElsewhere: true},
		},
		"news that cannot be read are none": {
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
		"the port everybody means":        {"https://hub", "https://hub:443", true},
		"an IPv6 address":                 {"https://[FD00::1]:6443", "https://[fd00::1]:6443/", true},
		"another IPv6 address":            {"https://[fd00::1]:6443", "https://[fd00::2]:6443", false},
		"an IPv6 address that has a port": {"https://[fd00::1]:443", "https://[fd00::1]", true},
		"another host":                    {"https://hub", "https://hub2", false},
		"another port":                    {"https://hub:6443", "https://hub:6444", false},
		"another path":                    {"https://hub/k8s/clusters/local", "https://hub", false},
		"the same path":                   {"https://hub/k8s/", "https://hub:443/k8s", true},
		"what is no URL, but the same":    {"::", "::", true},
		"what is no URL":                  {"::", "https://hub", false},
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
