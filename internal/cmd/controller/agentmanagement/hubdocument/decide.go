package hubdocument

import (
	"maps"
	"slices"
	"time"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// Limits of the tokens in a document. A ConfigMap has at most 1 MiB, and each encoding of a token adds a third.
const (
	maxWorkspaces = 500
	maxToken      = 8 << 10
	maxTokens     = 480 << 10
)

// Agents that the hub has rejected return over a minute for each 1,000 Clusters. spreadSlack is how many Clusters less make
// that a minute shorter: otherwise, each Cluster that comes and goes could change the document.
const (
	clustersPerMinute = 1000
	spreadSlack       = 100
)

// input describes what is published, and what is to be published.
type input struct {
	now time.Time
	// last is the last document with a valid signature, or nil. published are its tokens by workspace.
	last      *identity.Document
	published map[string]string
	// started means that this process has signed a document before.
	started bool
	// url, ca and lifetime are those of the configuration, and hash is its hubaddress.Hash.
	hash     string
	url      string
	ca       []byte
	lifetime time.Duration
	// tokens are the recovery tokens by workspace.
	tokens map[string]string
	// clusters is the number of Clusters whose agents can return with their key.
	clusters int
}

// outcome is what to publish.
type outcome struct {
	// sign means that the document has to be signed and written. It is false if the last one is as wanted.
	sign bool
	// document has no tokens yet. workspaces are those whose tokens are added.
	document   identity.Document
	workspaces []string
	// leftOut is the number of workspaces without a place in the document.
	leftOut int
}

// decide returns what to publish.
func decide(in input) outcome {
	out := outcome{document: identity.Document{URL: in.url, CA: in.ca, Lifetime: in.lifetime, Serial: in.now.Unix()}}
	out.workspaces, out.leftOut = fitting(in.tokens)
	out.document.RecoverySpread = spreadOf(in)
	if in.last == nil {
		out.sign, out.document.AddressSerial = true, out.document.Serial
		return out
	}
	out.document.Serial = max(out.document.Serial, in.last.Serial+1) // the clock may have been set back
	out.document.AddressSerial = out.document.Serial
	if in.last.SameAddress(&out.document) && in.last.AddressSerial > 0 {
		out.document.AddressSerial = in.last.AddressSerial
	}
	out.sign = !in.started || !in.last.SameAddress(&out.document) || in.last.Lifetime != in.lifetime ||
		in.last.RecoverySpread != out.document.RecoverySpread || !sameTokens(in, out.workspaces)
	return out
}

// spreadOf returns the recovery spread to publish. It is 0 for at most 1,000 Clusters, and never longer than agents wait: any
// user who can create Clusters can make it longer for all agents.
func spreadOf(in input) time.Duration {
	minutes := (in.clusters + clustersPerMinute - 1) / clustersPerMinute
	if in.last != nil {
		if last := int(in.last.RecoverySpread / time.Minute); minutes < last && in.clusters > (last-1)*clustersPerMinute-spreadSlack {
			minutes = last
		}
	}
	if minutes <= 1 {
		return 0
	}
	return min(time.Duration(minutes)*time.Minute, registering.LongestRecoverySpread)
}

// fitting returns the first workspaces by name whose tokens fit into a document.
func fitting(tokens map[string]string) (workspaces []string, leftOut int) {
	size := 0
	for _, workspace := range slices.Sorted(maps.Keys(tokens)) {
		length := len(tokens[workspace])
		if len(workspaces) == maxWorkspaces || length > maxToken || size+length > maxTokens {
			leftOut++
			continue
		}
		size += length
		workspaces = append(workspaces, workspace)
	}
	return workspaces, leftOut
}

// sameTokens reports whether the last document contains exactly the tokens of these workspaces.
func sameTokens(in input, workspaces []string) bool {
	if len(in.last.Tokens) != len(workspaces) {
		return false
	}
	return !slices.ContainsFunc(workspaces, func(workspace string) bool { return in.published[workspace] != in.tokens[workspace] })
}
