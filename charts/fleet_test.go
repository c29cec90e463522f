package charts_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	"helm.sh/helm/v3/pkg/chartutil"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// controllers returns the release of `helm install fleet --namespace cattle-fleet-system --values values`.
func controllers(values string) release {
	return release{chart: "fleet", name: "fleet", namespace: "cattle-fleet-system", values: values}
}

// controllersReleases returns releases that together use all of the controllers' chart.
func controllersReleases() map[string]release {
	return map[string]release{
		"defaults": controllers(""),
		"everything": controllers(`
apiServerURL: https://hub.example.com:6443
apiServerCA: |
  -----BEGIN CERTIFICATE-----
agentTLSMode: strict
bootstrap: {namespace: own, agentNamespace: own-agent, localAgentDisabled: true, clusterLabels: {env: hub}, repo: https://r, secret: s, branch: b, paths: "a,b"}
agentImage: {repository: team/agent, tag: v2, imagePullPolicy: Always}
agentCheckinInterval: 1h
garbageCollectionInterval: 0
agent: {replicas: 2, reconciler: {workers: {bundledeployment: 7, drift: "8"}}, leaderElection: {leaseDuration: 60s, retryPeriod: 5s, renewDeadline: 40s}}
ignoreClusterRegistrationLabels: true
agentCredential: {lifetime: 12h, readmit: false}
hubDocument: {anonymous: false}
capi: {enabled: true, namespaceSelector: {matchLabels: {team: a}}}
controller: {replicas: 3, registrationTokenTTL: {required: true}}
image: {repository: team/fleet, tag: v2, imagePullPolicy: Never}
leaderElection: {leaseDuration: 61s, retryPeriod: 6s, renewDeadline: 41s}
nodeSelector: {pool: system}
tolerations: [{key: a, operator: Exists}]
affinity: {podAntiAffinity: {}}
flowControl: {enabled: false}
gitClientTimeout: 1m
proxyCACert: |
  -----BEGIN CERTIFICATE-----
priorityClassName: system-cluster-critical
resources: {limits: {memory: 1Gi}, fleetController: {requests: {cpu: 1}}}
metrics: {enabled: false}
debug: true
debugLevel: 4
propagateDebugSettingsToAgents: false
proxy: http://proxy:3128
noProxy: .svc
extraEnv: [{name: A, value: b}]
extraLabels: {fleetController: {team: x}}
extraAnnotations: {fleetController: {note: why}}
global: {cattle: {systemDefaultRegistry: registry.example.com, imagePullSecrets: [{name: login}]}}
`),
		"two-replicas":      controllers("controller: {replicas: 2}\ngitops: {enabled: true}\n"),
		"shards":            controllers("controller: {replicas: 2}\nnodeSelector: {pool: x}\nshards: [{id: a, nodeSelector: {pool: a}}, {id: b}]\n"),
		"without-bootstrap": controllers("bootstrap: {enabled: false}\ndisableSecurityContext: true\n"),
		"other-namespace":   {chart: "fleet", name: "hub", namespace: "teams-fleet", values: "apiServerURL: https://hub\nbootstrap: {namespace: '-'}\n"},
	}
}

func TestFleetGolden(t *testing.T) {
	for name, r := range controllersReleases() {
		t.Run(name, func(t *testing.T) {
			golden.Expect(t, "fleet/"+name+".golden", one(mustRender(t, r)))
		})
	}
}

func TestFleetChart_RefusesInvalidValues(t *testing.T) {
	tests := map[string]struct {
		values string
		want   []string
	}{
		"an unknown key":                     {"apiserverURL: x", []string{"additional properties 'apiserverURL' not allowed"}},
		"an unknown key of bootstrap":        {"bootstrap: {name: x}", []string{"/bootstrap", "'name' not allowed"}},
		"an unknown key of controller":       {"controller: {replica: 2}", []string{"/controller", "'replica' not allowed"}},
		"an unknown TLS mode":                {"agentTLSMode: insecure", []string{"/agentTLSMode", "'system-store', 'strict'"}},
		"no TLS mode":                        {"agentTLSMode: ''", []string{"/agentTLSMode"}},
		"a check-in interval in days":        {"agentCheckinInterval: 1d", []string{"/agentCheckinInterval", "'1d' does not match pattern"}},
		"a check-in interval with a sign":    {"agentCheckinInterval: +15m", []string{"/agentCheckinInterval", "'+15m'"}},
		"a number as interval":               {"garbageCollectionInterval: 15", []string{"/garbageCollectionInterval", "got number, want null or string", "value must be 0"}},
		"a number without a unit":            {"garbageCollectionInterval: '15'", []string{"/garbageCollectionInterval", "'15'"}},
		"a lease without a unit":             {"leaderElection: {leaseDuration: '30'}", []string{"/leaderElection/leaseDuration"}},
		"an agent's lease in words":          {"agent: {leaderElection: {renewDeadline: half a minute}}", []string{"/agent/leaderElection/renewDeadline"}},
		"a bad value of an ignored duration": {"clusterEnqueueDelay: soon", []string{"/clusterEnqueueDelay"}},
		"an unknown key of an ignored value": {"gitops: {enable: true}", []string{"/gitops", "'enable' not allowed"}},
		"an unknown kind of ignored workers": {"controller: {reconciler: {workers: {gitRepo: 5}}}", []string{"/controller/reconciler/workers", "'gitRepo' not allowed"}},
		"a shard without a name for its ID":  {"shards: [{name: a}]", []string{"/shards/0", "'name' not allowed"}},
		"a shard without an ID":              {"shards: [{nodeSelector: {}}]", []string{"/shards/0", "missing property 'id'"}},
		"a shard whose ID is no name":        {"shards: [{id: Shard_0}]", []string{"/shards/0/id"}},
		"a shard ID too long for metrics":    {"shards: [{id: a123456789-b12345678-c12345678}]", []string{"the id a123456789-b12345678-c12345678 has 30 characters", "at most 29", "metrics.enabled"}},
		"a shard ID twice":                   {"shards: [{id: a}, {id: a, nodeSelector: {pool: b}}]", []string{"shards: the id a is in the list twice"}},
		"a lifetime as a number":             {"agentCredential: {lifetime: 24}", []string{"/agentCredential/lifetime", "got number, want string"}},
		"a lifetime below the minimum":       {"agentCredential: {lifetime: 9m59s}", []string{"agentCredential.lifetime is 9m59s", "set 10m or more"}},
		"a network with too many bits":       {"refusedKubeconfigCIDRs: [10.96.0.0/33]", []string{"/refusedKubeconfigCIDRs/0", "'10.96.0.0/33'"}},
		"a network that has no address":      {"refusedKubeconfigCIDRs: [10.96.0/12]", []string{"/refusedKubeconfigCIDRs/0", "'10.96.0/12'"}},
		"a network of version 6, too long":   {"refusedKubeconfigCIDRs: ['fd00::/129']", []string{"/refusedKubeconfigCIDRs/0", "'fd00::/129'"}},
		"a network of version 6, too short":  {"refusedKubeconfigCIDRs: ['fd00:10:96/112']", []string{"/refusedKubeconfigCIDRs/0", "'fd00:10:96/112'"}},
		"a selector with a path as a value":  {"capi: {clusterSelector: {matchLabels: {repo: org/app}}}", []string{"/capi/clusterSelector/matchLabels/repo", "'org/app'"}},
		"a selector whose key has a blank":   {"capi: {namespaceSelector: {matchExpressions: [{key: \"a b\", operator: Exists}]}}", []string{"/capi/namespaceSelector/matchExpressions/0/key", "'a b'"}},
		"a label key with a blank":           {"bootstrap: {clusterLabels: {a b: c}}", []string{"/bootstrap/clusterLabels", "'a b'"}},
		"workers that Helm writes as 1e+06":  {"agent: {reconciler: {workers: {drift: 1000000}}}", []string{"/agent/reconciler/workers/drift", "maximum"}},
		"workers above 32 bits":              {"agent: {reconciler: {workers: {bundledeployment: '9999999999'}}}", []string{"/agent/reconciler/workers/bundledeployment", "'9999999999'"}},
		"replicas above 32 bits":             {"agent: {replicas: 2147483648}", []string{"/agent/replicas", "maximum"}},
		"Clusters per token above 32 bits":   {"controller: {maxClustersPerToken: 9999999999}", []string{"/controller/maxClustersPerToken", "maximum"}},
		"a TTL of a thousand years":          {"controller: {registrationTokenTTL: {default: 9999999h}}", []string{"invalid duration", "9999999h"}},
		"an unknown operator of a selector":  {"capi: {clusterSelector: {matchExpressions: [{key: env, operator: Is, values: [dev]}]}}", []string{"/capi/clusterSelector/matchExpressions/0/operator", "'NotIn'"}},
		"a selector's value that is no list": {"capi: {clusterSelector: {matchExpressions: [{key: env, operator: In, values: dev}]}}", []string{"/capi/clusterSelector/matchExpressions/0/values", "got string"}},
		"a selector without values":          {"capi: {namespaceSelector: {matchExpressions: [{key: env, operator: In}]}}", []string{"/capi/namespaceSelector/matchExpressions/0", "missing property 'values'"}},
		"a selector with useless values":     {"capi: {namespaceSelector: {matchExpressions: [{key: env, operator: Exists, values: [dev]}]}}", []string{"/capi/namespaceSelector/matchExpressions/0/values", "maxItems: got 1, want 0"}},
		"a CA in base64":                     {"apiServerCA: LS0tLS1CRUdJTg==", []string{"apiServerCA has no certificate in PEM", "--set-file apiServerCA=hub-ca.pem"}},
		"the name of a file as a CA":         {"proxyCACert: ca.pem", []string{"proxyCACert has no certificate in PEM", "--set-file proxyCACert=ca.pem"}},
		"bootstrap.enabled as text":          {"bootstrap: {enabled: 'yes'}", []string{"/bootstrap/enabled", "got string, want boolean"}},
		"labels that are no text":            {"bootstrap: {clusterLabels: {a: 1}}", []string{"/bootstrap/clusterLabels/a", "want string"}},
		"resources of an unknown container":  {"resources: {fleetcontroller: {}}", []string{"/resources", "'fleetcontroller' not allowed"}},
		"an unknown kind of resources":       {"resources: {fleetController: {limit: {}}}", []string{"/resources/fleetController", "'limit' not allowed"}},
		"pull secrets as names":              {"global: {cattle: {imagePullSecrets: [login]}}", []string{"/global/cattle/imagePullSecrets/0", "got string, want object"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectRefused(t, controllers(test.values), test.want...)
		})
	}
}

// TestFleetShards_AcceptTheLongestID renders IDs of the greatest length: 29 with metrics, and 40 without them.
func TestFleetShards_AcceptTheLongestID(t *testing.T) {
	for file, values := range map[string]string{
		"service.yaml":    fmt.Sprintf("shards: [{id: %s}]", strings.Repeat("a", 29)),
		"deployment.yaml": fmt.Sprintf("metrics: {enabled: false}\nshards: [{id: %s}]", strings.Repeat("a", 40)),
	} {
		documents := strings.Split(mustRender(t, controllers(values))[file], "\n---\n")
		if found := parse[metav1.PartialObjectMetadata](t, documents[len(documents)-1]); len(found.Name) != 63 {
			t.Errorf("%s: the name %s has %d characters, want 63", file, found.Name, len(found.Name))
		}
	}
}

// TestFleetChart_IgnoresValuesOfMissingFeatures uses all values of Rancher Fleet for features that this release does not have.
func TestFleetChart_IgnoresValuesOfMissingFeatures(t *testing.T) {
	got := mustRender(t, controllers(`
additionalKnownHosts: [github.com ssh-rsa AAAA]
clusterEnqueueDelay: 120s
controller: {reconciler: {workers: {gitrepo: "50", bundle: "50", bundledeployment: "50", cluster: "50", clustergroup: "50", imagescan: "50", schedule: "50", content: "50"}}}
extraLabels: {gitjob: {a: b}, helmops: {a: b}}
extraAnnotations: {gitjob: {a: b}, helmops: {a: b}}
gitjob: {replicas: 1}
gitops: {enabled: true, syncPeriod: 2h}
helmops: {enabled: true, replicas: 1}
imagescan: {enabled: false}
insecureSkipHostKeyChecks: false
migrations: {clusterRegistrationCleanup: true, gitrepoJobsCleanup: true, gitrepoHelmURLRegexMigration: true}
resources: {fleetCleanup: {}, fleetAgentmanagement: {}, gitjob: {}, helmops: {limits: {cpu: 1}}}
webhookReceiverURL: https://hook
githubURLPrefix: https://github
global: {cattle: {clusterId: local, systemProjectId: p, url: https://rancher}}
`))
	notes, plain := got["NOTES.txt"], mustRender(t, controllers(""))
	delete(got, "NOTES.txt")
	if strings.Contains(plain["NOTES.txt"], "no effect") {
		t.Errorf("a warning about nothing:\n%s", plain["NOTES.txt"])
	}
	delete(plain, "NOTES.txt")
	if diff := cmp.Diff(plain, got); diff != "" {
		t.Errorf("ignored values changed something:\n%s", diff)
	}
	const want = "WARNING: these values have no effect in this release: additionalKnownHosts, clusterEnqueueDelay, controller.reconciler, " +
		"extraAnnotations.gitjob, extraAnnotations.helmops, extraLabels.gitjob, extraLabels.helmops, githubURLPrefix, gitjob, gitops, helmops, " +
		"imagescan, migrations, resources.helmops, webhookReceiverURL."
	if !strings.Contains(notes, want) {
		t.Errorf("the notes do not say\n%s\nbut\n%s", want, notes)
	}
}

func TestFleetNotes(t *testing.T) {
	tests := map[string]struct {
		in        release
		says, not []string
	}{
		"apiServerURL is set: first steps, no warning": {
			in:   controllers("apiServerURL: https://hub"),
			says: []string{"kubectl --namespace cattle-fleet-system rollout status deployment/fleet-controller", "kubectl --namespace fleet-local get clusters.fleet.cattle.io local"},
			not:  []string{"WARNING"},
		},
		"apiServerURL is empty: warning": {in: controllers(""), says: []string{"WARNING: apiServerURL is empty", "--set apiServerURL=https://THIS-HUB:6443"}},
		"CRDs are not installed: warning": {
			in:   release{chart: "fleet", name: "fleet", namespace: "teams", serves: chartutil.VersionSet{"v1"}},
			says: []string{"WARNING: the CRDs of fleet.cattle.io are not installed", "helm install fleet-crd charts/fleet-crd --namespace teams"},
		},
		"proxy: also for imported clusters": {in: controllers("proxy: http://p"), says: []string{"use the proxy also for imported clusters", "domains to noProxy"}},
		"no proxy: it is not mentioned":     {in: controllers(""), not: []string{"proxy"}},
		"agents without replicas: warning": {
			in:   controllers("agent: {replicas: 0}"),
			says: []string{"WARNING: the agents get 0 replicas", "kubectl --namespace cattle-fleet-system scale deployment/fleet-agent --replicas=1", "fleet repair NAME"},
		},
		"agents without replicas by extraEnv: warning": {
			in: controllers("extraEnv: [{name: FLEET_AGENT_REPLICA_COUNT, value: '0'}]"), says: []string{"WARNING: the agents get 0 replicas"},
		},
		"agents with replicas by extraEnv: no warning": {
			in: controllers("agent: {replicas: 0}\nextraEnv: [{name: FLEET_AGENT_REPLICA_COUNT, value: '1'}]"), not: []string{"replicas"},
		},
		"bootstrap is disabled: registration is not mentioned": {in: controllers("bootstrap: {enabled: false}"), not: []string{"is registered automatically"}},
		"values without effect: warning": {
			in:   controllers("imagescan: {enabled: true}\ngitops: {enabled: false}\nbootstrap: {repo: https://r}"),
			says: []string{"WARNING: these values have no effect in this release: bootstrap.repo, gitops, imagescan.\n"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			notes := mustRender(t, test.in)["NOTES.txt"]
			for _, text := range test.says {
				if !strings.Contains(notes, text) {
					t.Errorf("they do not say %q:\n%s", text, notes)
				}
			}
			for _, text := range test.not {
				if strings.Contains(notes, text) {
					t.Errorf("they say %q:\n%s", text, notes)
				}
			}
		})
	}
}

// TestFleetNotes_NameEveryValueWithoutEffect sets each value that docs/values.md calls ignored or stored. The notes must
// name it.
func TestFleetNotes_NameEveryValueWithoutEffect(t *testing.T) {
	every := everyValue(t, "fleet")
	for path, row := range documented(t, "fleet") {
		if row.what != "ignored" && row.what != "stored" || path == "gitClientTimeout" || path == "bootstrap.branch" { // these two have defaults
			continue
		}
		given, _ := at(every, path)
		notes := mustRender(t, controllers(marshal(t, put(map[string]any{}, path, given))))["NOTES.txt"]
		_, names, warned := strings.Cut(notes, "no effect in this release: ")
		names, _, _ = strings.Cut(names, ".\n")
		if !warned || !strings.HasPrefix(path, names) {
			t.Errorf("given %s, the notes name %q", path, names)
		}
	}
}

func TestFleetConfig(t *testing.T) {
	base := func(change func(*config.Config)) config.Config {
		c := config.Config{
			AgentImage: "fleethub/fleet-agent:" + version.Version, AgentImagePullPolicy: "IfNotPresent",
			AgentCheckinInterval: minutes(15), AgentTLSMode: "system-store", GarbageCollectionInterval: minutes(15),
			GitClientTimeout: config.Default("").GitClientTimeout, AgentCredentialLifetime: metav1.Duration{Duration: 24 * time.Hour},
			AgentWorkers: config.AgentWorkers{BundleDeployment: "50", Drift: "50"},
			Bootstrap:    config.Bootstrap{Namespace: "fleet-local", Branch: "master"},
		}
		if change != nil {
			change(&c)
		}
		return c
	}
	tests := map[string]struct {
		values string
		change func(*config.Config)
	}{
		"defaults": {"", nil},
		"address and CA of the hub": {"apiServerURL: https://hub\napiServerCA: |\n  -----BEGIN CERTIFICATE-----\n", func(c *config.Config) {
			c.APIServerURL, c.APIServerCA = "https://hub", []byte("-----BEGIN CERTIFICATE-----\n")
		}},
		"agent image": {"agentImage: {repository: a/b, tag: c, imagePullPolicy: Always}", func(c *config.Config) { c.AgentImage, c.AgentImagePullPolicy = "a/b:c", "Always" }},
		"tag of the controllers: agent image is unchanged": {"image: {tag: v9}", nil},
		"no pull policy":                   {"agentImage: {imagePullPolicy: ''}", func(c *config.Config) { c.AgentImagePullPolicy = "" }},
		"a registry":                       {"global: {cattle: {systemDefaultRegistry: r}}", func(c *config.Config) { c.SystemDefaultRegistry, c.AgentImage = "r/", "r/"+c.AgentImage }},
		"a registry with a trailing slash": {"global: {cattle: {systemDefaultRegistry: r/}}", func(c *config.Config) { c.SystemDefaultRegistry, c.AgentImage = "r/", "r/"+c.AgentImage }},
		"pull secrets":                     {"global: {cattle: {imagePullSecrets: [{name: a}]}}", func(c *config.Config) { c.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "a"}} }},
		"intervals": {"agentCheckinInterval: 90s\ngarbageCollectionInterval: 1h30m", func(c *config.Config) {
			c.AgentCheckinInterval.Duration, c.GarbageCollectionInterval.Duration = 90*time.Second, 90*time.Minute
		}},
		"intervals of zero, the defaults of the agent": {"agentCheckinInterval: 0\ngarbageCollectionInterval: 0", func(c *config.Config) { c.AgentCheckinInterval.Duration, c.GarbageCollectionInterval.Duration = 0, 0 }},
		"intervals of zero, as strings":                {"agentCheckinInterval: '0'\ngarbageCollectionInterval: '0'", func(c *config.Config) { c.AgentCheckinInterval.Duration, c.GarbageCollectionInterval.Duration = 0, 0 }},
		"Git client timeout":                           {"gitClientTimeout: 1m", func(c *config.Config) { c.GitClientTimeout.Duration = time.Minute }},
		"credentials that expire sooner":               {"agentCredential: {lifetime: 12h}", func(c *config.Config) { c.AgentCredentialLifetime.Duration = 12 * time.Hour }},
		"credentials of the minimum":                   {"agentCredential: {lifetime: 600s}", func(c *config.Config) { c.AgentCredentialLifetime.Duration = 10 * time.Minute }},
		"credentials that do not expire":               {"agentCredential: {lifetime: 0}", func(c *config.Config) { c.AgentCredentialLifetime.Duration = 0 }},
		"TLS mode strict":                              {"agentTLSMode: strict", func(c *config.Config) { c.AgentTLSMode = "strict" }},
		"labels of agents are ignored":                 {"ignoreClusterRegistrationLabels: true", func(c *config.Config) { c.IgnoreClusterRegistrationLabels = true }},
		"kubeconfigs in legacy namespaces are allowed": {"legacyKubeconfigNamespaces: true", func(c *config.Config) { c.LegacyKubeconfigNamespaces = true }},
		"kubeconfigs with local addresses are allowed": {"allowLocalKubeconfigs: true", func(c *config.Config) { c.AllowLocalKubeconfigs = true }},
		"plain values in Secrets":                      {"plainValuesInSecrets: true", func(c *config.Config) { c.PlainValuesInSecrets = true }},
		"networks of the hub's Services":               {"refusedKubeconfigCIDRs: [10.96.0.0/12, 'fd00::/112']", func(c *config.Config) { c.RefusedKubeconfigCIDRs = []string{"10.96.0.0/12", "fd00::/112"} }},
		"Cluster API": {"capi: {enabled: true, namespaceSelector: {matchLabels: {team: a}}, clusterSelector: {matchExpressions: [{key: env, operator: In, values: [dev]}]}}", func(c *config.Config) {
			c.CAPI = config.CAPI{
				Enabled: true, NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
				ClusterSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"dev"}}}},
			}
		}},
		"a selector without Cluster API": {"capi: {clusterSelector: {matchLabels: {env: dev}}}", func(c *config.Config) {
			c.CAPI.ClusterSelector = metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}
		}},
		"workers as numbers": {"agent: {reconciler: {workers: {bundledeployment: 7, drift: 8}}}", func(c *config.Config) { c.AgentWorkers = config.AgentWorkers{BundleDeployment: "7", Drift: "8"} }},
		"the most workers": {"agent: {reconciler: {workers: {bundledeployment: 999999, drift: '999999999'}}}", func(c *config.Config) {
			c.AgentWorkers = config.AgentWorkers{BundleDeployment: "999999", Drift: "999999999"}
		}},
		"bootstrap": {"bootstrap: {namespace: own, agentNamespace: x, localAgentDisabled: true, clusterLabels: {a: b}, repo: r, secret: s, branch: m, paths: 'p,q'}", func(c *config.Config) {
			c.Bootstrap = config.Bootstrap{Namespace: "own", AgentNamespace: "x", LocalAgentDisabled: true, ClusterLabels: map[string]string{"a": "b"}, Repo: "r", Secret: "s", Branch: "m", Paths: "p,q"}
		}},
		"values of the pods only": {"debug: true\nproxy: p\nagent: {replicas: 4}", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := parse[corev1.ConfigMap](t, mustRender(t, controllers(test.values))["configmap.yaml"])
			got, warnings, err := config.Parse([]byte(found.Data[names.ConfigKey]), config.Default("other"))
			if err != nil || len(warnings) > 0 {
				t.Fatalf("the controllers cannot read it: %v %q", err, warnings)
			}
			if diff := cmp.Diff(base(test.change), got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFleetConfig_HasTheVersionOfTheImage(t *testing.T) {
	for values, want := range map[string]string{"": version.Version, "image: {tag: v9}": "v9", "agentImage: {tag: v9}": version.Version} {
		found := parse[corev1.ConfigMap](t, mustRender(t, controllers(values))["configmap.yaml"])
		if got := found.Annotations[fleet.AnnotationVersion]; got != want {
			t.Errorf("with %q it is of release %q, want %q", values, got, want)
		}
	}
}

// TestFleetConfigChange_DoesNotRestartPods sets values that the controllers read again while they run.
func TestFleetConfigChange_DoesNotRestartPods(t *testing.T) {
	live := `
apiServerURL: https://hub
apiServerCA: -----BEGIN CERTIFICATE-----
agentTLSMode: strict
agentImage: {repository: x, tag: z, imagePullPolicy: Always}
agentCheckinInterval: 1h
garbageCollectionInterval: 1h
agent: {reconciler: {workers: {bundledeployment: 1, drift: 1}}}
ignoreClusterRegistrationLabels: true
bootstrap: {namespace: own, agentNamespace: x, localAgentDisabled: true, clusterLabels: {a: b}, repo: r, secret: s, branch: m, paths: p}
`
	if diff := cmp.Diff(mustRender(t, controllers(""))["deployment.yaml"], mustRender(t, controllers(live))["deployment.yaml"]); diff != "" {
		t.Errorf("live settings changed the pods:\n%s", diff)
	}
}

// controllerOptions returns the options of a fleetcontroller with the command line and environment of the rendered pod.
func controllerOptions(t *testing.T, values string) env.Controller {
	t.Helper()
	container := parse[appsv1.Deployment](t, mustRender(t, controllers(values))["deployment.yaml"]).Spec.Template.Spec.Containers[0]
	var got env.Controller
	flags := pflag.NewFlagSet("fleetcontroller", pflag.ContinueOnError)
	got.Bind(flags)
	if err := flags.Parse(container.Command[1:]); err != nil {
		t.Fatalf("the command line %q: %v", container.Command, err)
	}
	if err := got.Complete(flags, environment(t, container)); err != nil {
		t.Fatal(err)
	}
	return got
}

// environment returns the environment of a container. The test fails if a variable is not read, because its name is then
// wrong.
func environment(t *testing.T, container corev1.Container) env.Environment {
	t.Helper()
	unread := map[string]bool{}
	variables := map[string]string{"HOSTNAME": "pod"}
	for _, variable := range container.Env {
		variables[variable.Name] = variable.Value
		unread[variable.Name] = true
		if variable.ValueFrom != nil {
			variables[variable.Name] = "cattle-fleet-system"
		}
	}
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_DIR"} { // net/http and crypto/x509 read these
		delete(unread, variable)
	}
	t.Cleanup(func() {
		for variable := range unread {
			t.Errorf("nothing reads the variable %s", variable)
		}
	})
	return func(name string) string {
		delete(unread, name)
		return variables[name]
	}
}

func TestFleetValues_ReachTheControllerOptions(t *testing.T) {
	base := func() env.Controller {
		return env.Controller{
			Namespace: "cattle-fleet-system", LeaderElect: true, LogFormat: "text", MetricsAddress: ":8080", HealthAddress: ":8081", Identity: "pod",
			Election: env.Election{LeaseDuration: 30 * time.Second, RetryPeriod: 10 * time.Second, RenewDeadline: 25 * time.Second},
			Agent:    env.AgentSettings{Replicas: 1, LeaseDuration: "30s", RetryPeriod: "10s", RenewDeadline: "25s", PropagateDebug: true},

			MaxClustersPerToken: env.DefaultMaxClustersPerToken, DefaultTokenTTL: 720 * time.Hour,
		}
	}
	tests := map[string]struct {
		values string
		change func(*env.Controller)
	}{
		"defaults":                    {"", func(*env.Controller) {}},
		"no bootstrap":                {"bootstrap: {enabled: false}", func(c *env.Controller) { c.DisableBootstrap = true }},
		"no metrics":                  {"metrics: {enabled: false}", func(c *env.Controller) { c.DisableMetrics, c.MetricsAddress = true, "0" }},
		"counted BundleDeployments":   {"metrics: {bundleDeployments: false}", func(c *env.Controller) { c.CountDeployments = true }},
		"debug":                       {"debug: true\ndebugLevel: 3", func(c *env.Controller) { c.Debug, c.DebugLevel = true, 3 }},
		"insecure kubeconfigs":        {"controller: {allowInsecureKubeconfigs: true}", func(c *env.Controller) { c.AllowInsecureKubeconfigs = true }},
		"limit of Clusters per token": {"controller: {maxClustersPerToken: 7}", func(c *env.Controller) { c.MaxClustersPerToken = 7 }},
		"the largest limit":           {"controller: {maxClustersPerToken: 2147483647}", func(c *env.Controller) { c.MaxClustersPerToken = 2147483647 }},
		"TTL is required":             {"controller: {registrationTokenTTL: {required: true}}", func(c *env.Controller) { c.TTLRequired = true }},
		"default TTL":                 {"controller: {registrationTokenTTL: {default: 24h}}", func(c *env.Controller) { c.DefaultTokenTTL = 24 * time.Hour }},
		"no default TTL":              {"controller: {registrationTokenTTL: {default: 0}}", func(c *env.Controller) { c.DefaultTokenTTL = 0 }},
		"leader election": {"leaderElection: {leaseDuration: 2m, retryPeriod: 3s, renewDeadline: 1m}", func(c *env.Controller) {
			c.Election = env.Election{LeaseDuration: 2 * time.Minute, RetryPeriod: 3 * time.Second, RenewDeadline: time.Minute}
		}},
		"the agents' leader election": {"agent: {leaderElection: {leaseDuration: 2m, retryPeriod: 3s, renewDeadline: 60s}}", func(c *env.Controller) {
			c.Agent.LeaseDuration, c.Agent.RetryPeriod, c.Agent.RenewDeadline = "2m", "3s", "60s"
		}},
		"the agents' replicas":                       {"agent: {replicas: 2}", func(c *env.Controller) { c.Agent.Replicas = 2 }},
		"debug settings are not propagated":          {"propagateDebugSettingsToAgents: false\ndisableSecurityContext: true", func(c *env.Controller) { c.Agent.PropagateDebug = false }},
		"no security context":                        {"disableSecurityContext: true", func(c *env.Controller) { c.Agent.DisableSecurityContext = true }},
		"proxy":                                      {"proxy: http://p", func(*env.Controller) {}},
		"another metrics address":                    {"extraEnv: [{name: FLEET_METRICS_BIND_ADDRESS, value: ':9090'}]", func(c *env.Controller) { c.MetricsAddress = ":9090" }},
		"another identity":                           {"extraEnv: [{name: POD_NAME, value: me}]", func(c *env.Controller) { c.Identity = "me" }},
		"extraEnv overrides a variable of the chart": {"extraEnv: [{name: FLEET_AGENT_REPLICA_COUNT, value: '9'}]", func(c *env.Controller) { c.Agent.Replicas = 9 }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := base()
			test.change(&want)
			if diff := cmp.Diff(want, controllerOptions(t, test.values), cmpopts.IgnoreUnexported(env.Controller{})); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFleetValues_ChangeTheDeployment(t *testing.T) {
	tests := map[string]struct {
		values string
		change func(d *appsv1.Deployment, pod *corev1.PodSpec, c *corev1.Container)
	}{
		"image": {"image: {repository: a/b, tag: c, imagePullPolicy: Never}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Image, c.ImagePullPolicy = "a/b:c", corev1.PullNever
		}},
		"a registry": {"global: {cattle: {systemDefaultRegistry: 'r:5000/'}}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Image = "r:5000/fleethub/fleet:" + version.Version
		}},
		"pull secrets": {"global: {cattle: {imagePullSecrets: [{name: a}]}}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "a"}}
		}},
		"several replicas: spread over nodes": {"controller: {replicas: 2}", func(d *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			d.Spec.Replicas = new(int32(2))
			p.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "fleet-controller"}},
				}}},
			}}
		}},
		"several replicas and an affinity: the affinity is used": {"controller: {replicas: 2}\naffinity: {nodeAffinity: {}}", func(d *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			d.Spec.Replicas, p.Affinity = new(int32(2)), &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		}},
		"no replicas":                           {"controller: {replicas: 0}", func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) { d.Spec.Replicas = new(int32(0)) }},
		"a node selector":                       {"nodeSelector: {a: b}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.NodeSelector["a"] = "b" }},
		"selector for Linux: cannot be changed": {"nodeSelector: {kubernetes.io/os: x}", func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {}},
		"tolerations: appended in their order": {"tolerations: [{key: b}, {key: a}]", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.Tolerations = append(p.Tolerations, corev1.Toleration{Key: "b"}, corev1.Toleration{Key: "a"})
		}},
		"affinity": {"affinity: {nodeAffinity: {}}", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) {
			p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		}},
		"a priority class": {"priorityClassName: high", func(_ *appsv1.Deployment, p *corev1.PodSpec, _ *corev1.Container) { p.PriorityClassName = "high" }},
		"no security context": {"disableSecurityContext: true", func(_ *appsv1.Deployment, p *corev1.PodSpec, c *corev1.Container) {
			p.SecurityContext, c.SecurityContext = nil, nil
			set(c, "FLEET_DEBUG_DISABLE_SECURITY_CONTEXT", "true")
		}},
		"resources of all containers: used": {"resources: {limits: {memory: 1Gi}}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Resources = resources("limits: {memory: 1Gi}")
		}},
		"resources of the container: take precedence": {"resources: {limits: {memory: 1Gi}, fleetController: {requests: {cpu: 5m}}}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Resources = resources("requests: {cpu: 5m}")
		}},
		"empty resources of the container: none": {"resources: {limits: {memory: 1Gi}, fleetController: {}}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Resources = corev1.ResourceRequirements{}
		}},
		"empty resources of all containers: the defaults": {"resources: {limits: null, requests: {}, helmops: {limits: {cpu: 1}}}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Resources = resources("requests: {cpu: 50m, memory: 128Mi}")
		}},
		"CA of a proxy: mounted, with a checksum that restarts the pods": {"proxyCACert: -----BEGIN CERTIFICATE-----\nextraAnnotations: {fleetController: {c: d}}", func(d *appsv1.Deployment, p *corev1.PodSpec, c *corev1.Container) {
			d.Spec.Template.Annotations = map[string]string{"c": "d", "checksum/proxy-ca": fmt.Sprintf("%x", sha256.Sum256([]byte("-----BEGIN CERTIFICATE-----")))}
			c.Env = append(c.Env, corev1.EnvVar{Name: "SSL_CERT_DIR", Value: "/etc/ssl/certs:/etc/fleet/proxy-ca"})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "proxy-ca", MountPath: "/etc/fleet/proxy-ca", ReadOnly: true})
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "proxy-ca", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "fleet-controller-proxy-ca"}},
			}})
		}},
		"no metrics": {"metrics: {enabled: false}", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Ports, c.Command = c.Ports[1:], append(c.Command, "--disable-metrics")
		}},
		"proxy": {"proxy: http://p\nnoProxy: .svc", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "HTTP_PROXY", Value: "http://p"}, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://p"}, corev1.EnvVar{Name: "NO_PROXY", Value: ".svc"})
		}},
		"extraEnv replaces the chart's own": {"extraEnv: [{name: NAMESPACE, value: x}]", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(c.Env[1:], corev1.EnvVar{Name: "NAMESPACE", Value: "x"})
		}},
		"extraEnv": {"extraEnv: [{name: A, value: b}]", func(_ *appsv1.Deployment, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "A", Value: "b"})
		}},
		"labels and annotations": {"extraLabels: {fleetController: {a: b, app: other}}\nextraAnnotations: {fleetController: {c: d}}", func(d *appsv1.Deployment, _ *corev1.PodSpec, _ *corev1.Container) {
			d.Spec.Template.Labels["a"] = "b"
			d.Spec.Template.Annotations = map[string]string{"c": "d"}
		}},
		"nulls: no change": {"affinity: null\nnodeSelector: null\ntolerations: null\nextraEnv: null\nextraLabels: null\nextraAnnotations: null\npriorityClassName: null\nproxy: null\nglobal: {cattle: null}", func(*appsv1.Deployment, *corev1.PodSpec, *corev1.Container) {}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := parse[appsv1.Deployment](t, mustRender(t, controllers(""))["deployment.yaml"])
			pod := &want.Spec.Template.Spec
			test.change(&want, pod, &pod.Containers[0])
			got := parse[appsv1.Deployment](t, mustRender(t, controllers(test.values))["deployment.yaml"])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Deployment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFleetBootstrapDisabled_RemovesOnlyItsAccount(t *testing.T) {
	on, off := mustRender(t, controllers("")), mustRender(t, controllers("bootstrap: {enabled: false}"))
	if _, found := off["bootstrap.yaml"]; found {
		t.Error("without bootstrap there is still its account")
	}
	delete(on, "bootstrap.yaml")
	for name, text := range off {
		if name != "deployment.yaml" && name != "NOTES.txt" && on[name] != text {
			t.Errorf("%s depends on bootstrap.enabled", name)
		}
	}
}

// TestFleetRights_CoverGrantedClusterRoles makes the check of the API server when the controllers create the recorded
// ClusterRoles: an account cannot grant rights that it does not have. Roles are not compared, because the controllers may
// escalate them.
func TestFleetRights_CoverGrantedClusterRoles(t *testing.T) {
	document, _, _ := strings.Cut(mustRender(t, controllers(""))["rbac.yaml"], "\n---\n")
	held := parse[rbacv1.ClusterRole](t, document).Rules
	given := recordedRules(t)
	if len(given) != 2 {
		t.Fatalf("%d ClusterRoles are recorded", len(given))
	}
	for name, rules := range given {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						if !slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool { return covers(h, group, resource, verb) }) {
							t.Errorf("%s gives away %s of %s.%s, which the controllers do not have", name, verb, resource, group)
						}
					}
				}
			}
		}
	}
	if covers(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"x"}}, "", "secrets", "get") {
		t.Error("a right to one name was taken for a right to all")
	}
}

func covers(held rbacv1.PolicyRule, group, resource, verb string) bool {
	has := func(list []string, item string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, item)
	}
	return len(held.ResourceNames) == 0 && has(held.APIGroups, group) && has(held.Resources, resource) && has(held.Verbs, verb)
}

// recordedRules returns the rules of the recorded ClusterRoles of controllers, by name.
func recordedRules(t *testing.T) map[string][]rbacv1.PolicyRule {
	t.Helper()
	found := map[string][]rbacv1.PolicyRule{}
	text, err := os.ReadFile(filepath.Join("..", "testdata", "recorded", "hub", "clusterroles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(text), "\n---\n") {
		role := parse[rbacv1.ClusterRole](t, document)
		set := role.Annotations["objectset.rio.cattle.io/id"]
		if set != "" && set != "fleet-agent-bootstrap" { // that one is the agent's on the hub as a downstream cluster
			found[role.Name] = role.Rules
		}
	}
	return found
}

// mayGiveAway reports whether a rule is one of the two that let the controllers grant rights which they do not have: those
// of any Role, and those of the ClusterRoles of agents.
func mayGiveAway(rule rbacv1.PolicyRule) bool {
	switch {
	case slices.Equal(rule.Resources, []string{"roles"}):
		return slices.Equal(rule.Verbs, []string{"bind", "escalate"})
	case slices.Equal(rule.Resources, []string{"clusterroles"}):
		return slices.Equal(rule.Verbs, []string{"bind"}) && slices.Equal(rule.ResourceNames, []string{"fleet-bundle-deployment", "fleet-content"})
	}
	return false
}

// mayDeleteTogether reports whether a rule is one of the two for used credentials. With list and delete they may be deleted
// one by one anyway.
func mayDeleteTogether(rule rbacv1.PolicyRule) bool {
	credentials := slices.Equal(rule.Resources, []string{"secrets"}) || slices.Equal(rule.Resources, []string{"roles", "rolebindings"})
	return credentials && slices.Contains(rule.Verbs, "list") && slices.Contains(rule.Verbs, "delete")
}

func TestFleetRights_ExcludePrivilegedVerbsAndWildcards(t *testing.T) {
	for _, document := range strings.Split(mustRender(t, controllers(""))["rbac.yaml"], "\n---\n") {
		role := parse[rbacv1.ClusterRole](t, document)
		for _, rule := range role.Rules {
			for _, verb := range []string{"escalate", "bind", "impersonate", "deletecollection", "*"} {
				if slices.Contains(rule.Verbs, verb) && !mayGiveAway(rule) && (verb != "deletecollection" || !mayDeleteTogether(rule)) {
					t.Errorf("%s %s: verb %q on %v", role.Kind, role.Name, verb, rule.Resources)
				}
			}
			if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") {
				t.Errorf("%s %s: all of %v %v", role.Kind, role.Name, rule.APIGroups, rule.Resources)
			}
			if len(rule.NonResourceURLs) > 0 {
				t.Errorf("%s %s: %v", role.Kind, role.Name, rule.NonResourceURLs)
			}
		}
	}
}

// TestFleetRules_NameTheCodeThatNeedsThem requires a comment before each rule that begins with the packages or functions
// that need the rule.
func TestFleetRules_NameTheCodeThatNeedsThem(t *testing.T) {
	lines := strings.Split(mustRender(t, controllers(""))["rbac.yaml"], "\n")
	rules := 0
	for i, line := range lines {
		if line != "- apiGroups:" {
			continue
		}
		rules++
		reason := i
		for strings.HasPrefix(lines[reason-1], "# ") {
			reason--
		}
		who, _, said := strings.Cut(strings.TrimPrefix(lines[reason], "# "), ": ")
		if !said {
			t.Errorf("line %d: the comment names no code that needs the rule:\n%s", i+1, strings.Join(lines[reason:i+5], "\n"))
			continue
		}
		for name := range strings.SplitSeq(who, ", ") {
			if !isInTheControllers(t, name) {
				t.Errorf("line %d: %q is no package and no function of the controllers", reason+1, name)
			}
		}
	}
	if rules < 15 {
		t.Errorf("only %d rules were looked at", rules)
	}
}

// isInTheControllers reports whether a name is a package of the controllers, or package.Identifier in this repository.
func isInTheControllers(t *testing.T, name string) bool {
	t.Helper()
	pkg, identifier, qualified := strings.Cut(name, ".")
	folder := filepath.Join("..", "internal", "cmd", "controller")
	if qualified {
		folder = filepath.Join("..", "internal")
	}
	defines := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |\t)` + regexp.QuoteMeta(identifier[strings.LastIndex(identifier, ".")+1:]) + `\b`)
	found := false
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || found || filepath.Base(filepath.Dir(path)) != pkg && filepath.Base(path) != pkg:
		case entry.IsDir():
			found = !qualified
		case qualified && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			var text []byte
			text, err = os.ReadFile(path)
			found = defines.Match(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestIsInTheControllers_FindsNamedCode(t *testing.T) {
	for name, want := range map[string]bool{
		"bootstrap": true, "agentmanagement": true, "leader.Lead": true, "reconcile.WriteStatus": true, "hub.App.Recorder": true,
		"kube": false, "nobody": false, "kube.Follow": false, "nobody.Lead": false,
	} {
		if got := isInTheControllers(t, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func minutes(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Minute} }

func set(c *corev1.Container, name, value string) {
	for i := range c.Env {
		if c.Env[i].Name == name {
			c.Env[i].Value = value
		}
	}
}

func resources(text string) corev1.ResourceRequirements {
	var r corev1.ResourceRequirements
	if err := yaml.UnmarshalStrict([]byte(text), &r); err != nil {
		panic(err)
	}
	return r
}

func TestFleetCA_IsTheGivenOne(t *testing.T) {
	text := mustRender(t, controllers("apiServerCA: |\n  -----BEGIN CERTIFICATE-----\n  Zm9v\n  -----END CERTIFICATE-----\n"))["configmap.yaml"]
	want := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n"))
	if !strings.Contains(text, `"apiServerCA": "`+want+`"`) {
		t.Errorf("the CA is not there as base64:\n%s", text)
	}
}

// Pod Security level restricted requires a seccomp profile, and OpenShift refuses users outside of a namespace's range.
func TestControllersPod_IsAdmittedByRestrictedPolicies(t *testing.T) {
	user := int64(1000)
	for name, test := range map[string]struct {
		serves []string
		user   *int64
	}{
		"Kubernetes": {user: &user},
		"OpenShift":  {serves: []string{"security.openshift.io/v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := controllers("")
			r.serves = slices.Concat(r.capabilities().APIVersions, test.serves)
			yes := true
			want := &corev1.PodSecurityContext{
				RunAsUser: test.user, RunAsGroup: test.user, RunAsNonRoot: &yes,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			}
			got := parse[appsv1.Deployment](t, mustRender(t, r)["deployment.yaml"]).Spec.Template.Spec.SecurityContext
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("security context of the pod (-want +got):\n%s", diff)
			}
		})
	}
}
