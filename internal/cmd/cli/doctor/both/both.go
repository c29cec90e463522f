// Package both contains the checks of `fleet doctor cluster` that compare a Cluster on the hub with its cluster: do both
// sides mean the same registration, account, client ID and hub?
//
//	member.Facts (hub) ─┐
//	                    ├─► Facts ─► Checks (pure functions) ─► rows
//	agent.Facts ────────┘
package both

import (
	"bytes"
	"cmp"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/member"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Facts is what both sides say.
type Facts struct {
	Hub     *member.Facts
	Cluster *agent.Facts
}

// Rows returns the rows of all checks.
func Rows(hub member.Report, cluster agent.Report) []check.Row {
	missing := check.Missing{}
	maps.Copy(missing, hub.Missing)
	maps.Copy(missing, cluster.Missing)
	return check.Run(Checks(), &Facts{hub.Facts, cluster.Facts}, missing)
}

// Checks returns all checks, in the order of their rows.
func Checks() []check.Check[*Facts] {
	credential := []check.Source{agent.SourceCredential}
	return []check.Check[*Facts]{
		{ID: "both-contexts", Needs: []check.Source{agent.SourceSystem, member.SourceSystem}, Judge: checkContexts},
		{ID: "both-cluster", Needs: credential, Judge: checkCluster},
		{ID: "both-namespace", Needs: credential, Judge: checkNamespace},
		{ID: "both-account", Needs: append(credential, member.SourceAccounts), Judge: checkAccount},
		{ID: "both-registration", Needs: append(credential, member.SourceAccounts, member.SourceRegistrations), Judge: checkRegistration},
		{ID: "both-client-id", Needs: []check.Source{agent.SourceSystem, agent.SourceSettings}, Judge: checkClientID},
		{ID: "both-hub-uid", Needs: []check.Source{agent.SourceSettings, member.SourceSystem}, Judge: checkHubUID},
		{ID: "both-hub-url", Needs: append(credential, member.SourceConfig, member.SourceKubeconfig), Judge: checkURL},
		{ID: "both-hub-ca", Needs: append(credential, agent.SourceSettings, member.SourceConfig, member.SourceKubeconfig), Judge: checkCA},
	}
}

func (f *Facts) secret() check.Object {
	return check.Object{Kind: "Secret", Namespace: f.Cluster.Namespace, Name: names.Agent}
}

func (f *Facts) settings() check.Object {
	return check.Object{Kind: "ConfigMap", Namespace: f.Cluster.Namespace, Name: names.Agent}
}

// wanted returns the names of the Cluster.
func (f *Facts) wanted() types.NamespacedName {
	return types.NamespacedName{Namespace: f.Hub.Cluster.Namespace, Name: f.Hub.Cluster.Name}
}

// isOther reports whether there is no credential to compare, or one of another Cluster: other checks report that.
func (f *Facts) isOther() bool {
	return !f.Cluster.Credential.Usable() || f.Cluster.Credential.Cluster != f.wanted()
}

// notCompared is the row of a check for which there is nothing to compare.
func (f *Facts) notCompared() []check.Row {
	return []check.Row{{Verdict: check.Skipped, Cause: "the cluster has no usable credential of this Cluster"}}
}

func checkContexts(f *Facts) []check.Row {
	if f.Hub.UID != f.Cluster.UID || f.Hub.Cluster.Name == names.LocalCluster {
		return nil
	}
	return []check.Row{check.Fail(f.Hub.Object(), "--cluster-context points to the cluster of the hub", "kubectl config get-contexts")}
}

func checkCluster(f *Facts) []check.Row {
	found := f.Cluster.Credential.Cluster
	switch {
	case found.Name == "": // check agent-credential reports it
		return f.notCompared()
	case found == f.wanted():
		return []check.Row{check.Ok(f.secret(), "Cluster "+found.String())}
	}
	return []check.Row{check.Fail(f.secret(), fmt.Sprintf("this cluster has joined %s as Cluster %s, not as %s", f.Cluster.Credential.Server, found, f.wanted()),
		remedy.Command("fleet", "doctor", "cluster", remedy.NameOr(found.Name, "NAME"), "-n", remedy.NameOr(found.Namespace, "WORKSPACE"),
			"--cluster-context", f.Cluster.Here.Context))}
}

func checkNamespace(f *Facts) []check.Row {
	if f.isOther() {
		return f.notCompared()
	}
	found, wanted := f.Cluster.Credential.ClusterNamespace, f.Hub.Namespace()
	if found == wanted {
		return []check.Row{check.Ok(f.secret(), found)}
	}
	return []check.Row{check.Fail(f.secret(), fmt.Sprintf("the agent uses namespace %s of the hub, and that of the Cluster is %s", found, wanted), f.Hub.Repair)}
}

// account returns the account with the UID in the agent's token, or nil.
func (f *Facts) account() *corev1.ServiceAccount {
	for _, account := range f.Hub.Accounts {
		if uid := string(account.UID); uid != "" && uid == f.Cluster.Credential.Account {
			return account
		}
	}
	return nil
}

func checkAccount(f *Facts) []check.Row {
	if f.isOther() || f.Cluster.Credential.Account == "" {
		return f.notCompared()
	}
	if account := f.account(); account != nil {
		return []check.Row{check.Ok(f.secret(), "ServiceAccount "+account.Namespace+"/"+account.Name)}
	}
	return []check.Row{check.Fail(f.secret(), fmt.Sprintf("no account in namespace %s of the hub has the UID in the agent's token (%s): it was deleted", f.Hub.Namespace(), f.Cluster.Credential.Account), f.Hub.Repair)}
}

func checkRegistration(f *Facts) []check.Row {
	if f.isOther() {
		return f.notCompared()
	}
	account := f.account()
	if account == nil {
		return []check.Row{{Verdict: check.Skipped, Cause: "the account in the agent's token does not exist on the hub"}}
	}
	name := account.Annotations[fleet.AnnotationClusterRegistration]
	i := slices.IndexFunc(f.Hub.Granted(), func(r *fleet.ClusterRegistration) bool { return r.Name == name })
	if i < 0 {
		return []check.Row{check.Fail(f.secret(), fmt.Sprintf("the agent's account belongs to ClusterRegistration %s/%s, which does not exist or is not granted", f.wanted().Namespace, name), f.Hub.Repair)}
	}
	return []check.Row{check.Ok(f.secret(), "ClusterRegistration "+f.wanted().Namespace+"/"+name)}
}

func checkClientID(f *Facts) []check.Row {
	own, where := f.Cluster.Settings.ClientID, f.settings()
	if own == "" {
		own, where = string(f.Cluster.UID), check.Object{Kind: "Namespace", Name: "kube-system"}
	}
	wanted := f.Hub.Cluster.Spec.ClientID
	if !f.Cluster.Credential.Exists && !f.Cluster.Bootstrap.Exists || f.Cluster.Settings.Err != nil || f.Cluster.Credential.Exists && f.isOther() {
		return f.notCompared()
	}
	if own == wanted {
		return []check.Row{check.Ok(where, own)}
	}
	return []check.Row{check.Warn(f.Hub.Object(), fmt.Sprintf("the client ID of the Cluster is %q, and that of the agent is %q", wanted, own),
		remedy.Patch("clusters", f.Hub.Cluster, map[string]any{"spec": map[string]any{"clientID": own}}))}
}

func checkHubUID(f *Facts) []check.Row {
	mark := f.Cluster.Settings.HubUID
	if mark == "" || mark == string(f.Hub.UID) {
		return nil
	}
	return []check.Row{check.Fail(f.settings(), fmt.Sprintf("the agent was installed by the hub with the UID %s, and the UID of this hub is %s", mark, f.Hub.UID),
		f.Cluster.Here.On(remedy.Command("kubectl", "annotate", "configmap", "-n", f.Cluster.Namespace, names.Agent, annotation.HubUID+"-")))}
}

// move returns the command that gives the agent the address and the CA of the hub.
func (f *Facts) move() string {
	if f.Hub.Imported() {
		return f.Hub.Repair
	}
	return remedy.Command("fleet", "repair", f.wanted().Name, "-n", f.wanted().Namespace, "--format", "values") + " | " +
		f.Cluster.Here.On(remedy.Command("kubectl", "create", "secret", "generic", "-n", f.Cluster.Namespace, names.AgentBootstrap, "--from-file=values=/dev/stdin"))
}

// verdict returns a warning as long as the agent works.
func (f *Facts) verdict(cause, fix string) check.Row {
	if f.Cluster.Probe.Sent && f.Cluster.Probe.Err == nil && f.Cluster.Probe.AcceptErr == nil {
		return check.Warn(f.secret(), cause, fix)
	}
	return check.Fail(f.secret(), cause, fix)
}

func checkURL(f *Facts) []check.Row {
	if f.isOther() {
		return f.notCompared()
	}
	wanted, found := cmp.Or(f.Hub.Kubeconfig.URL, f.Hub.Config.APIServerURL), f.Cluster.Credential.Server
	if wanted == "" || strings.TrimSuffix(wanted, "/") == strings.TrimSuffix(found, "/") {
		return []check.Row{check.Ok(f.secret(), found)}
	}
	return []check.Row{f.verdict(fmt.Sprintf("the agent uses %s, and the address of the hub is %s", found, wanted), f.move())}
}

func checkCA(f *Facts) []check.Row {
	if f.isOther() {
		return f.notCompared()
	}
	wanted, found := f.Hub.Kubeconfig.CA, f.Cluster.Credential.CA
	if len(wanted) == 0 {
		wanted = f.Hub.Config.APIServerCA
	}
	// In mode system-store, an agent that trusts the server with the roots of its system stores no CA.
	rooted := len(found) == 0 && f.Cluster.Settings.AgentTLSMode == config.TLSModeSystemStore
	if len(wanted) == 0 || rooted || slices.EqualFunc(certificates(wanted), certificates(found), bytes.Equal) {
		return nil
	}
	return []check.Row{f.verdict("the agent trusts another CA than the one that the hub gives to its agents", f.move())}
}

// certificates returns the certificates of a bundle in PEM, sorted.
func certificates(bundle []byte) (all [][]byte) {
	for rest := bytes.TrimSpace(bundle); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		all = append(all, block.Bytes)
	}
	slices.SortFunc(all, bytes.Compare)
	return all
}
