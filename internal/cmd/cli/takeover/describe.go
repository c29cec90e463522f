package takeover

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Takeover is the result.
type Takeover struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Request   string `json:"request"`
	// Granted means that the hub has granted the request. Already means that it had done so before.
	Granted   bool      `json:"granted"`
	Already   bool      `json:"already,omitempty"`
	Requester Requester `json:"requester"`
	Earlier   Earlier   `json:"earlier"`
}

// Requester is what a request says about its agent. All of it is claimed by the agent, except for the time.
type Requester struct {
	// Created is the time of the request in RFC 3339.
	Created  string `json:"created"`
	ClientID string `json:"clientID"`
	// Token is the token that the request names. Only agents with this token can read the answer.
	Token        string `json:"token,omitempty"`
	TokenMissing bool   `json:"tokenMissing,omitempty"`
	// Pod is the name of the agent's pod.
	Pod string `json:"pod,omitempty"`
	// Labels are the first labels that the agent proposes. MoreLabels counts the others.
	Labels     []string `json:"labels,omitempty"`
	MoreLabels int      `json:"moreLabels,omitempty"`
}

// Earlier describes the agent that is registered.
type Earlier struct {
	// LastSeen is the time of its last heartbeat in RFC 3339.
	LastSeen string `json:"lastSeen,omitempty"`
	Version  string `json:"version,omitempty"`
	// Token is the token with which it registered.
	Token string `json:"token,omitempty"`
	// Outcome describes what happens to it.
	Outcome string `json:"outcome"`
}

// Limits of what is shown of a request.
const (
	maxText   = 100
	maxLabels = 8
)

// shown returns a short text of one line.
func shown(text string) string { return foreign.Excerpt(text, maxText) }

// describe returns what the request says about its agent, and what happens to the earlier agent.
func describe(f found) Takeover {
	r := f.request
	t := Takeover{
		Namespace: r.Namespace, Cluster: f.cluster.Name, Request: r.Name, Granted: r.Status.Granted,
		Requester: Requester{
			Created: r.CreationTimestamp.UTC().Format(time.RFC3339), ClientID: shown(r.Spec.ClientID), Token: shown(r.Labels[fleet.LabelRegistrationToken]),
			TokenMissing: f.tokenMissing, Pod: shown(r.Spec.ClusterLabels[fleet.LabelCreatedByAgentPod]),
		},
		Earlier: Earlier{LastSeen: clusters.LastSeen(f.cluster), Version: shown(f.cluster.Status.Agent.AgentVersion), Outcome: outcomeOf(f)},
	}
	if len(f.granted) > 0 {
		newest := slices.MaxFunc(f.granted, func(a, b *fleet.ClusterRegistration) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
		t.Earlier.Token = shown(newest.Labels[fleet.LabelRegistrationToken])
	}
	for _, key := range slices.Sorted(maps.Keys(r.Spec.ClusterLabels)) {
		switch {
		case key == fleet.LabelCreatedByAgentPod:
		case len(t.Requester.Labels) == maxLabels:
			t.Requester.MoreLabels++
		default:
			t.Requester.Labels = append(t.Requester.Labels, shown(key+"="+r.Spec.ClusterLabels[key]))
		}
	}
	return t
}

// facts prints the description for people.
func (t Takeover) facts(out io.Writer, now time.Time) error {
	token, labels := cmp.Or(t.Requester.Token, "-"), strings.Join(t.Requester.Labels, ",")
	if t.Requester.TokenMissing {
		token += " (does not exist)"
	}
	if t.Requester.MoreLabels > 0 {
		labels += " and " + strconv.Itoa(t.Requester.MoreLabels) + " more"
	}
	return output.Facts(out, [][2]string{
		{"Cluster:", t.Namespace + "/" + t.Cluster},
		{"Request:", t.Request + ", " + ago(t.Requester.Created, now)},
		{"  client ID:", t.Requester.ClientID},
		{"  token:", token},
		{"  pod:", cmp.Or(t.Requester.Pod, "-")},
		{"  labels:", cmp.Or(labels, "-")},
		{"Earlier agent:", t.Earlier.Outcome},
		{"  last seen:", ago(t.Earlier.LastSeen, now)},
		{"  version:", cmp.Or(t.Earlier.Version, "-")},
		{"  token:", cmp.Or(t.Earlier.Token, "-")},
	})
}

// ago returns the time since a time in RFC 3339.
func ago(text string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "never"
	}
	return duration.HumanDuration(max(now.Sub(at), 0)) + " ago"
}
