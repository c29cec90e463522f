package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func now() time.Time { return time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC) }

func made(name string, ttl time.Duration, change func(*fleet.ClusterRegistrationToken)) *fleet.ClusterRegistrationToken {
	t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet-default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now().Add(-time.Hour)),
	}}
	t.Status.SecretName = name
	if ttl > 0 {
		t.Spec.TTL = &metav1.Duration{Duration: ttl}
	}
	if change != nil {
		change(t)
	}
	return t
}

func joinedAs(cluster, token, uid string, granted bool) *fleet.ClusterRegistration {
	r := &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Labels: map[string]string{fleet.LabelRegistrationToken: token}}}
	if uid != "" {
		r.Annotations = map[string]string{annotation.TokenUIDAtGrant: uid}
	}
	r.Status.ClusterName, r.Status.Granted = cluster, granted
	return r
}

func TestTokens_ArePrintedInEveryFormat(t *testing.T) {
	tokens := []*fleet.ClusterRegistrationToken{
		made("west", 2*time.Hour, func(t *fleet.ClusterRegistrationToken) {
			t.Annotations = map[string]string{annotation.TokenForCluster: "west"}
		}),
		made("shared", 0, nil),
		made("over", time.Minute, nil),
		made("new", time.Hour*24, func(t *fleet.ClusterRegistrationToken) { t.Status.SecretName = "" }),
		made("taken", time.Hour*24, func(t *fleet.ClusterRegistrationToken) {
			t.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Ready, Status: "False", Reason: conditions.ReasonSecretNameTaken, Message: "delete\nthe Secret"}}
		}),
	}
	requests := []*fleet.ClusterRegistration{
		joinedAs("west", "west", "uid-west", true), joinedAs("west", "west", "uid-west", true), joinedAs("early", "west", "uid-of-an-earlier-token", true),
		joinedAs("waiting", "west", "", false), joinedAs("d", "shared", "", true), joinedAs("c", "shared", "", true), joinedAs("b", "shared", "", true), joinedAs("a", "shared", "", true),
	}
	all := results(tokens, joinedWith(tokens, requests, nil), now())
	for _, format := range []output.Format{output.Table, output.JSON, output.YAML, output.Name} {
		var out bytes.Buffer
		if err := write(&out, format, all.Items, all, true); err != nil {
			t.Fatal(err)
		}
		golden.Expect(t, "list."+string(format), out.String())
	}
}

// A request that recovers an agent has no token, and the one that named the token is deleted.
func TestClusterWhoseAgentHasRecovered_StaysJoined(t *testing.T) {
	cluster := func(workspace, name, uid string) *fleet.Cluster {
		return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name, Labels: map[string]string{fleet.LabelTokenUID: uid}}}
	}
	recovery := joinedAs("a", "", "", true)
	recovery.Name = "recovery"
	server := clitest.Start(t, made("west", 0, nil), recovery,
		cluster("fleet-default", "a", "uid-west"), cluster("fleet-default", "b", "uid-east"), cluster("other", "c", "uid-west"))
	t.Setenv("KUBECONFIG", server.Kubeconfig)
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return New(streams, now) }
	for _, args := range [][]string{{"list"}, {"show", "west"}} {
		got := clitest.Call(t.Context(), command, args...).String()
		if !strings.Contains(got, "<any>   a\n") {
			t.Errorf("%v: %s", args, got)
		}
	}
}

func newText(t *testing.T) jointext.Text {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return jointext.Text{
		URL: "https://hub:6443", CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), Workspace: "fleet-default",
		Token: "bearer", TokenName: "west", ClientID: "client-1", SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}
}

func TestText_IsPrintedInEveryForm(t *testing.T) {
	text := newText(t)
	for form, want := range map[string][]string{
		formatJoin:     {"fleet join --context west <<'JOIN'\nfleet-join-v1:", "\nJOIN\n# hub CA sha256:"},
		formatValues:   {"apiServerURL: https://hub:6443\n", "agentTLSMode: strict\n", "clientID: client-1\n", "token: bearer\n"},
		formatManifest: {"kind: Namespace\n", "kind: Deployment\n", "name: fleet-agent-bootstrap\n"},
	} {
		var out bytes.Buffer
		if err := (&Handover{form}).Write(&out, text, "west"); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: no %q in\n%s", form, part, out.String())
			}
		}
	}
	var out bytes.Buffer
	if err := (&Handover{formatJoin}).Write(&out, text, ""); err != nil || !strings.HasPrefix(out.String(), "fleet join --context CONTEXT <<") {
		t.Error(out.String(), err)
	}
}

func TestPlan(t *testing.T) {
	existing := func(change func(*fleet.Cluster)) *fleet.Cluster {
		c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Labels: map[string]string{"env": "prod"}}, Spec: fleet.ClusterSpec{ClientID: "own"}}
		change(c)
		return c
	}
	order := Order{Workspace: "fleet-default", Name: "west", Cluster: "west", Labels: map[string]string{"env": "prod"}, TTL: time.Hour}
	reusable := order
	reusable.Cluster, reusable.Labels = "", nil
	for name, test := range map[string]struct {
		order    Order
		existing *fleet.Cluster
		clientID string
		creates  bool
		patch    string
		code     exit.Code
	}{
		"no Cluster: it is created":                {order, nil, "random", true, "", exit.Done},
		"reusable: no Cluster":                     {reusable, nil, "", false, "", exit.Done},
		"a Cluster: its client ID is used":         {order, existing(func(*fleet.Cluster) {}), "own", false, "", exit.Done},
		"without a client ID: it gets one":         {order, existing(func(c *fleet.Cluster) { c.Spec.ClientID = "" }), "random", false, `{"metadata":{"labels":{"env":"prod"},"resourceVersion":"7"},"spec":{"clientID":"random"}}`, exit.Done},
		"without the label: it gets it":            {order, existing(func(c *fleet.Cluster) { c.Labels = nil }), "own", false, `{"metadata":{"labels":{"env":"prod"},"resourceVersion":"7"},"spec":{}}`, exit.Done},
		"an imported Cluster: refused":             {order, existing(func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "k" }), "", false, "", exit.Refused},
		"a Cluster that is being deleted: refused": {order, existing(func(c *fleet.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: now()} }), "", false, "", exit.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := newPlan(test.order, test.existing, "random")
			if exit.CodeOf(err) != test.code || err == nil && (p.clientID != test.clientID || (p.create != nil) != test.creates || string(p.patch) != test.patch) {
				t.Errorf("%+v, patch %s, %v", p, p.patch, err)
			}
			if only := p.token.Annotations[annotation.TokenForClientID]; err == nil && only != test.clientID {
				t.Errorf("the token is for client ID %q, want %q", only, test.clientID)
			}
		})
	}
}

func TestInvalidOrder_IsRejectedWithAllProblems(t *testing.T) {
	err := Order{Name: "West", Labels: map[string]string{"a b": "c"}, TTL: -1}.Check()
	if failure, ok := err.(*exit.Error); !ok || len(failure.Problems) != 4 || failure.Code != exit.Usage { //nolint:errorlint // it is not wrapped
		t.Errorf("%v", err)
	}
}

func TestTTLThatIsTooShortToJoin_IsRejected(t *testing.T) {
	for ttl, code := range map[time.Duration]exit.Code{1: exit.Usage, time.Minute - 1: exit.Usage, time.Minute: exit.Done, 0: exit.Done} {
		if err := (Order{Name: "west", TTL: ttl}).Check("fleet token create --help"); exit.CodeOf(err) != code {
			t.Errorf("--ttl %s: %v", ttl, err)
		}
	}
}
