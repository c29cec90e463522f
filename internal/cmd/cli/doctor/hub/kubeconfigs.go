package hub

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// credentialWarning is when a credential counts as one that expires soon.
	credentialWarning = 14 * 24 * time.Hour
	// maxKubeconfig and maxToken limit what is parsed, in bytes.
	maxKubeconfig = 256 << 10
	maxToken      = 16 << 10
)

// kubeconfigChecks returns the checks of kubeconfigs.
func kubeconfigChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{
			ID: "hub-kubeconfigs-exist", Needs: sources(sourceClusters, sourceKubeconfigs), Judge: checkKubeconfigsExist,
			About:     "The kubeconfig Secret of each Cluster exists.",
			Otherwise: "The hub can neither install nor repair the agent. Write a kubeconfig of the cluster into the Secret.",
		},
		{
			ID: "hub-kubeconfigs-valid", Needs: sources(sourceClusters, sourceKubeconfigs), Judge: checkKubeconfigsValid,
			About:     "The hub accepts each kubeconfig.",
			Otherwise: "The hub does not use the kubeconfig, for the reason that the cause names. Write one that it accepts.",
		},
		{
			ID: "hub-kubeconfigs-expiry", Needs: sources(sourceClusters, sourceKubeconfigs), Judge: checkKubeconfigsExpiry,
			About:     "No kubeconfig expires within 14 days.",
			Otherwise: "After that, the hub can neither change nor repair the agent. Write a kubeconfig with a new credential. A token of `fleet import` does not expire.",
		},
		{
			ID: "hub-kubeconfigs-accepted", Needs: sources(sourceClusters), Judge: checkKubeconfigsAccepted,
			About:     "Each cluster accepts the kubeconfig that the hub has.",
			Otherwise: "The hub can neither change nor repair the agent. The cause begins with the reason of the condition `Imported` ([conditions.md](conditions.md)).",
		},
	}
}

// read returns what the checks need of a kubeconfig Secret. The hub's rules decide what is refused.
func readKubeconfig(data map[string][]byte, options foreign.Options) Kubeconfig {
	document, found := data[protocol.KubeconfigValueKey]
	switch {
	case !found:
		return Kubeconfig{}
	case len(document) > maxKubeconfig:
		return Kubeconfig{Exists: true, Err: kubeconfigs.ErrKubeconfigMalformed}
	}
	result := Kubeconfig{Exists: true}
	if _, err := foreign.Config(document, options); err != nil && !errors.Is(err, foreign.ErrKubeconfigExpired) {
		result.Err = err
		return result
	}
	cfg, err := kubeconfigs.Safe(document, kubeconfigs.AllowInsecure(true))
	if err != nil {
		result.Err = err
		return result
	}
	result.Expires = earlier(certificateExpiry(cfg.CertData), tokenExpiry(cfg.BearerToken))
	return result
}

// earlier returns the earlier one of two times. The zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// certificateExpiry returns when a client certificate expires, or the zero time if it cannot be parsed.
func certificateExpiry(data []byte) time.Time {
	block, _ := pem.Decode(data)
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}

// tokenExpiry returns when a JWT expires, or the zero time if the token is not a JWT or does not expire.
func tokenExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 || claims.Expires > 1<<53 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}

// options returns the hub's rules for kubeconfigs.
func (f *Facts) options() foreign.Options {
	options := foreign.Options{Now: f.Now, AnyAddress: f.Config.AllowLocalKubeconfigs, Insecure: f.allowsInsecure()}
	for _, text := range f.Config.RefusedKubeconfigCIDRs {
		if network, err := netip.ParsePrefix(text); err == nil {
			options.Refused = append(options.Refused, network)
		}
	}
	return options
}

// allowsInsecure reports whether the operator allows kubeconfigs that skip the verification of certificates.
func (f *Facts) allowsInsecure() bool {
	for _, deployment := range f.controllers() {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			for _, variable := range container.Env {
				if variable.Name == "FLEET_ALLOW_INSECURE_KUBECONFIGS" && variable.Value == "true" {
					return true
				}
			}
		}
	}
	return false
}

// secretOf returns the kubeconfig Secret that a Cluster names.
func secretOf(cluster *fleet.Cluster) types.NamespacedName {
	return types.NamespacedName{Namespace: remedy.SecretNamespace(cluster), Name: cluster.Spec.KubeConfigSecret}
}

// imported returns the Clusters whose agents the hub installs.
func (f *Facts) imported() []*fleet.Cluster {
	return slices.DeleteFunc(slices.Clone(f.Clusters), func(c *fleet.Cluster) bool {
		return c.Spec.KubeConfigSecret == "" || c.DeletionTimestamp != nil
	})
}

func checkKubeconfigsExist(f *Facts) []check.Row {
	var groups check.Groups
	for _, cluster := range f.imported() {
		if secret := secretOf(cluster); !f.Kubeconfigs[secret].Exists {
			groups.Add("", check.Fail(clusterObject(cluster), fmt.Sprintf("Secret %s, or its key %q, does not exist", secret, protocol.KubeconfigValueKey),
				remedy.OfCluster(cluster, fleet.ReasonKubeconfigMissing)))
		}
	}
	return groups.Rows()
}

func checkKubeconfigsValid(f *Facts) []check.Row {
	var groups check.Groups
	for _, cluster := range f.imported() {
		if err := f.Kubeconfigs[secretOf(cluster)].Err; err != nil {
			groups.Add(err.Error(), check.Fail(clusterObject(cluster), fmt.Sprintf("Secret %s: %v", secretOf(cluster), err),
				remedy.OfCluster(cluster, fleet.ReasonKubeconfigInvalid)))
		}
	}
	return groups.Rows()
}

func checkKubeconfigsExpiry(f *Facts) []check.Row {
	var groups check.Groups
	for _, cluster := range f.imported() {
		expires := f.Kubeconfigs[secretOf(cluster)].Expires
		left := expires.Sub(f.Now)
		fix := remedy.OfCluster(cluster, fleet.ReasonKubeconfigExpired)
		switch {
		case expires.IsZero():
		case left <= 0:
			groups.Add("expired", check.Fail(clusterObject(cluster), fmt.Sprintf("the credential in Secret %s expired on %s",
				secretOf(cluster), expires.UTC().Format(time.DateOnly)), fix))
		case left < credentialWarning:
			groups.Add("soon", check.Warn(clusterObject(cluster), fmt.Sprintf("the credential in Secret %s expires in %s", secretOf(cluster), days(left)), fix))
		}
	}
	return groups.Rows()
}

// refusedReasons returns the reasons for which a kubeconfig is refused, by the hub or by the cluster.
func refusedReasons() []string {
	return []string{
		fleet.ReasonKubeconfigInvalid, fleet.ReasonKubeconfigRefused, fleet.ReasonKubeconfigNamespaceRefused, fleet.ReasonDownstreamAnswerRefused,
		fleet.ReasonDownstreamCertificateExpired, fleet.ReasonDownstreamUnreachable, fleet.ReasonDownstreamUnauthorized, fleet.ReasonDownstreamForbidden,
		fleet.ReasonTLSUntrusted, fleet.ReasonTargetIsHub,
	}
}

func checkKubeconfigsAccepted(f *Facts) []check.Row {
	var groups check.Groups
	for _, cluster := range f.imported() {
		condition := fleet.GetCondition(cluster.Status.Conditions, fleet.ConditionImported)
		if condition == nil || !fleet.IsTrouble(*condition) || !slices.Contains(refusedReasons(), condition.Reason) {
			continue
		}
		cause := condition.Reason + ": " + condition.Message
		fix := cmp.Or(remedy.OfCluster(cluster, condition.Reason), remedy.OfCluster(cluster, fleet.ReasonKubeconfigRefused))
		if condition.Reason == fleet.ReasonKubeconfigNamespaceRefused && fix != "" {
			cause = fmt.Sprintf("%s: run the fix only if workspace %s may control the cluster of this kubeconfig. %s", condition.Reason, cluster.Namespace, condition.Message)
			if allowed := f.Kubeconfigs[secretOf(cluster)].Allowed; allowed != "" {
				fix = strings.TrimSuffix(fix, remedy.Quote(fleet.AnnotationAllowedWorkspaces+"="+cluster.Namespace)) +
					remedy.Quote(fleet.AnnotationAllowedWorkspaces+"="+allowed+","+cluster.Namespace)
			}
		}
		groups.Add(condition.Reason, check.Fail(clusterObject(cluster), cause, fix))
	}
	return groups.Rows()
}
