package registering

import (
	"bytes"
	"net/url"
	"strings"
)

// A bootstrap secret may name the hub of the stored identity by another address, or with another CA: the
// hub has moved, or its CA is replaced, and whoever delivered the Secret knows how it is reached now. The
// identity is then asked about there, before anything else is done with the bootstrap secret:
//
//	accepted there      ─► the stored kubeconfig is rewritten, the account and its token stay, the Secret has done its work
//	turned away there   ─► beside an identity that works it is not needed; beside one that does not, it is registered with
//	no answer there     ─► both addresses are asked until one accepts it; what works goes on meanwhile

// elsewhere says whether the bootstrap secret names another address or another CA than the stored identity
// has. Under TLS mode system-store an identity without a CA is as it should be, whatever CA is handed over.
func elsewhere(in Input) bool {
	if in.Stored == nil || !canRegister(in) {
		return false
	}
	if !sameServer(in.Stored.Server, in.Bootstrap.APIServerURL) {
		return true
	}
	if in.SystemStore && len(in.Stored.CA) == 0 {
		return false
	}
	return !bytes.Equal(bytes.TrimSpace(in.Stored.CA), bytes.TrimSpace(in.Bootstrap.APIServerCA))
}

// sameServer compares two URLs by what a connection is made to.
func sameServer(a, b string) bool { return a == b || endpoint(a) == endpoint(b) }

func endpoint(server string) string {
	address, err := url.Parse(server)
	if err != nil {
		return server
	}
	port := address.Port()
	if port == "" && address.Scheme == "https" {
		port = "443"
	}
	return address.Scheme + "://" + strings.ToLower(address.Hostname()) + " " + port + " " + strings.TrimRight(address.Path, "/")
}

// hubMoved is Next while the stored identity is asked about at the address of the bootstrap secret; not ok where
// that is no question, or answered.
func hubMoved(in Input) (step Outcome, ok bool) {
	if !elsewhere(in) || in.Stored.Verdict.Answer == "" {
		return Outcome{}, false
	}
	works := in.Stored.Verdict.Answer == Accepted
	silent := in.Moved.Answer == "" || in.Moved.Answer == Unanswered
	switch {
	case in.Moved.Answer == Accepted:
		return Outcome{Stage: Use, Rewrite: true, DropBootstrap: true}, true
	case works && !in.Moved.against(in.Now, RejectionPatience):
		return Outcome{Stage: Use, AskElsewhere: true}, true
	case works || !silent:
		return Outcome{}, false
	case in.Serving && !in.Stored.Verdict.against(in.Now, RejectionPatience):
		return Outcome{Stage: Use, AskAgain: true, AskElsewhere: true}, true
	case in.Stored.Verdict.Answer != Unanswered: // and rights may come back to it here, too
		return Outcome{Stage: Await, Awaited: AnswerElsewhere, AskAgain: true, AskElsewhere: true}, true
	}
	return Outcome{Stage: Await, Awaited: AnswerToStored, AskAgain: true, AskElsewhere: true}, true
}
