package both

import (
	"encoding/pem"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/checktest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/member"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const workspace = "fleet-default"

func certificate(text string) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)})
}

// healthy returns the facts of two sides that agree.
func healthy() *Facts {
	west := types.NamespacedName{Namespace: workspace, Name: "west"}
	namespace, both := names.ClusterNamespace(workspace, "west"), append(certificate("old"), certificate("new")...)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "request-1-x", UID: "uid-of-account"}}
	account.Annotations = map[string]string{fleet.AnnotationClusterRegistration: "request-1"}
	return &Facts{
		Hub: &member.Facts{
			Scope: member.Scope{Repair: "fleet repair west -n fleet-default"}, UID: "uid-of-hub",
			Cluster:       &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "west"}, Spec: fleet.ClusterSpec{ClientID: "client-of-west"}},
			Config:        config.Config{APIServerURL: "https://hub.example.com:6443/", APIServerCA: both},
			Accounts:      []*corev1.ServiceAccount{account},
			Registrations: []*fleet.ClusterRegistration{{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "request-1"}, Status: fleet.ClusterRegistrationStatus{ClusterName: "west", Granted: true}}},
		},
		Cluster: &agent.Facts{
			Scope: agent.Scope{Namespace: names.SystemNamespace, Here: remedy.Target{Context: "west"}}, UID: "uid-of-west",
			Settings: agent.Settings{Exists: true, HubUID: "uid-of-hub", Agent: config.Agent{ClientID: "client-of-west", AgentTLSMode: config.TLSModeStrict}},
			Credential: agent.Credential{
				Exists: true, Cluster: west, ClusterNamespace: namespace, Server: "https://hub.example.com:6443",
				CA: append(certificate("new"), certificate("old")...), Account: "uid-of-account",
			},
			Probe: agent.Probe{Sent: true},
		},
	}
}

func TestSidesThatAgree_PassEveryCheck(t *testing.T) {
	f := healthy()
	for _, row := range check.Run(Checks(), f, nil) {
		if row.Verdict != check.OK || row.Fix != "" {
			t.Errorf("%+v", row)
		}
	}
}

const (
	repair   = "fleet repair west -n fleet-default"
	move     = repair + " --format values | kubectl --context west create secret generic -n cattle-fleet-system fleet-agent-bootstrap --from-file=values=/dev/stdin"
	secret   = "Secret cattle-fleet-system/fleet-agent"
	settings = "ConfigMap cattle-fleet-system/fleet-agent"
	west     = "Cluster fleet-default/west"
)

// fault is a problem that one check has to find.
type fault = checktest.Fault[*Facts]

func faults() map[string]fault {
	setClientID := func(id string) string {
		return "kubectl patch clusters.fleet.cattle.io -n fleet-default west --type=merge -p " + remedy.Quote(`{"spec":{"clientID":`+id+`}}`)
	}
	return map[string]fault{
		"cluster is the hub": {"both-contexts", func(f *Facts) { f.Cluster.UID = "uid-of-hub" }, west, check.Failed, "points to the cluster of the hub", "kubectl config get-contexts"},
		"cluster is another": {"both-cluster", func(f *Facts) { f.Cluster.Credential.Cluster.Name = "north" }, secret, check.Failed, "as Cluster fleet-default/north, not as fleet-default/west",
			"fleet doctor cluster north -n fleet-default --cluster-context west"},
		"cluster has a hostile name": {"both-cluster", func(f *Facts) {
			f.Cluster.Credential.Cluster = types.NamespacedName{Namespace: "--as=admin", Name: "a b"}
		}, secret, check.Failed, "has joined",
			"fleet doctor cluster NAME -n WORKSPACE --cluster-context west"},
		"another namespace":            {"both-namespace", func(f *Facts) { f.Cluster.Credential.ClusterNamespace = "other" }, secret, check.Failed, "uses namespace other of the hub", repair},
		"account was deleted":          {"both-account", func(f *Facts) { f.Hub.Accounts = nil }, secret, check.Failed, "has the UID in the agent's token (uid-of-account)", repair},
		"account was replaced":         {"both-account", func(f *Facts) { f.Hub.Accounts[0].UID = "uid-of-next" }, secret, check.Failed, "it was deleted", repair},
		"registration is deleted":      {"both-registration", func(f *Facts) { f.Hub.Registrations = nil }, secret, check.Failed, "ClusterRegistration fleet-default/request-1, which does not exist", repair},
		"registration was not granted": {"both-registration", func(f *Facts) { f.Hub.Registrations[0].Status.Granted = false }, secret, check.Failed, "is not granted", repair},
		"another client ID":            {"both-client-id", func(f *Facts) { f.Cluster.Settings.ClientID = "x'; rm" }, west, check.Warning, `is "client-of-west", and that of the agent is "x'; rm"`, setClientID(`"x'; rm"`)},
		"client ID of the cluster":     {"both-client-id", func(f *Facts) { f.Cluster.Settings.ClientID = "" }, west, check.Warning, `that of the agent is "uid-of-west"`, setClientID(`"uid-of-west"`)},
		"another hub":                  {"both-hub-uid", func(f *Facts) { f.Cluster.Settings.HubUID = "x" }, settings, check.Failed, "UID x, and the UID of this hub is uid-of-hub", "kubectl --context west annotate configmap -n cattle-fleet-system fleet-agent fleet.cattle.io/hub-uid-"},
		"another URL":                  {"both-hub-url", func(f *Facts) { f.Hub.Config.APIServerURL = "https://new" }, secret, check.Warning, "https://hub.example.com:6443, and the address of the hub is https://new", move},
		"another URL of an import": {"both-hub-url", func(f *Facts) {
			f.Hub.Cluster.Spec.KubeConfigSecret, f.Hub.Kubeconfig.URL = "x", "https://own"
		}, secret, check.Warning, "the address of the hub is https://own", repair},
		"old URL does not answer": {"both-hub-url", func(f *Facts) {
			f.Hub.Config.APIServerURL, f.Cluster.Probe.AcceptErr = "https://new", &hubclient.StatusError{Code: 401}
		}, secret, check.Failed, "is https://new", move},
		"another CA":   {"both-hub-ca", func(f *Facts) { f.Cluster.Credential.CA = certificate("new") }, secret, check.Warning, "another CA", move},
		"CA is broken": {"both-hub-ca", func(f *Facts) { f.Cluster.Credential.CA = []byte("x"); f.Cluster.Probe = agent.Probe{} }, secret, check.Failed, "another CA", move},
	}
}

func TestFaults(t *testing.T) {
	checktest.TestFaults(t, Checks(), healthy, faults())
}

// Not every deviation is a problem.
func TestNoFaults(t *testing.T) {
	checktest.TestDeviations(t, Checks(), healthy, map[string]checktest.Deviation[*Facts]{
		"the hub's own Cluster":            {"both-contexts", func(f *Facts) { f.Cluster.UID, f.Hub.Cluster.Name = "uid-of-hub", "local" }},
		"no mark":                          {"both-hub-uid", func(f *Facts) { f.Cluster.Settings.HubUID = "" }},
		"hub without a configured address": {"both-hub-url", func(f *Facts) { f.Hub.Config.APIServerURL = "" }},
		"hub without a configured CA":      {"both-hub-ca", func(f *Facts) { f.Hub.Config.APIServerCA = nil }},
		"agent that trusts the system's roots": {"both-hub-ca", func(f *Facts) {
			f.Cluster.Credential.CA, f.Cluster.Settings.AgentTLSMode = nil, config.TLSModeSystemStore
		}},
		"token without claims": {"both-account", func(f *Facts) { f.Cluster.Credential.Account = "" }},
	})
}

// Without a credential, or with that of another Cluster, there is one problem and nothing to compare.
func TestCredentialOfAnotherCluster_SkipsTheOtherChecks(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"another Cluster": func(f *Facts) { f.Cluster.Credential.Cluster.Name = "north" },
		"incomplete":      func(f *Facts) { f.Cluster.Credential.Err = protocol.ErrIncomplete },
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			change(f)
			for _, row := range check.Run(Checks(), f, nil) {
				if row.Verdict == check.Failed && row.ID != "both-cluster" || row.Verdict == check.Warning {
					t.Errorf("%+v", row)
				}
			}
		})
	}
}

func TestMissingFacts_SkipTheChecksThatNeedThem(t *testing.T) {
	f := healthy()
	missing := check.Missing{agent.SourceCredential: {Cause: "you do not have the right"}}
	rows := Rows(member.Report{Facts: f.Hub}, agent.Report{Facts: f.Cluster, Missing: missing})
	skipped := 0
	for _, row := range rows {
		if row.Verdict == check.Skipped {
			skipped++
		}
	}
	if len(rows) != len(Checks()) || skipped != 6 {
		t.Errorf("%d of %d rows are skipped", skipped, len(rows))
	}
}
