package registering

import (
	"bytes"
	"net/url"
	"strings"
)

// A bootstrap secret may name another address or another CA than the stored identity. Then the hub has moved, or its
// CA was replaced, and the bootstrap secret is more recent. The agent tries its identity at that address before it
// does anything else with the bootstrap secret:
//
//	accepted there  ─► the stored kubeconfig is rewritten, account and token stay, the Secret is deleted
//	rejected there  ─► an agent whose identity works at its own address drops the Secret; any other registers with it
//	another hub     ─► like rejected, but the identity is not sent: it would be that hub's to use
//	no answer there ─► both addresses are tried until one accepts the identity; a working one stays in use

// elsewhere reports whether the bootstrap secret names another address or another CA than the stored identity. Under
// TLS mode system-store a stored identity without a CA is correct, whatever CA the bootstrap secret has.
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

// sameServer reports whether two URLs lead to the same endpoint.
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

// hubMoved returns the step while the stored identity is tried at the address in the bootstrap secret. It returns
// false if there is nothing to try, or if the result is known.
func hubMoved(in Input) (step Outcome, ok bool) {
	if !elsewhere(in) || in.Stored.LastAnswer.Answer == "" {
		return Outcome{}, false
	}
	works := in.Stored.LastAnswer.Answer == Accepted
	silent := in.AnswerAtNewAddress.Answer == "" || in.AnswerAtNewAddress.Answer == Unanswered
	switch {
	case in.AnswerAtNewAddress.Answer == Accepted:
		return Outcome{Stage: Use, Rewrite: true, DropBootstrap: true}, true
	case works && !in.AnswerAtNewAddress.against(in.Now, RejectionPatience):
		return Outcome{Stage: Use, ProbeNewAddress: true}, true
	case works || !silent:
		return Outcome{}, false
	case in.Serving && !in.Stored.LastAnswer.against(in.Now, RejectionPatience):
		return Outcome{Stage: Use, ProbeStored: true, ProbeNewAddress: true}, true
	case in.Stored.LastAnswer.Answer != Unanswered: // the hub may accept the identity again here, too
		return Outcome{Stage: Await, Awaited: AnswerElsewhere, ProbeStored: true, ProbeNewAddress: true}, true
	}
	return Outcome{Stage: Await, Awaited: AnswerToStored, ProbeStored: true, ProbeNewAddress: true}, true
}
