package apis_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestTokenTTL_IsValidated(t *testing.T) {
	const refused = "must be a valid Go duration"
	tests := map[string]struct{ ttl, want string }{
		"seconds":                {`"15s"`, ""},
		"minutes":                {`"5m"`, ""},
		"hours":                  {`"2h"`, ""},
		"hours and minutes":      {`"1h30m"`, ""},
		"milliseconds":           {`"300ms"`, ""},
		"a fraction":             {`"1.5h"`, ""},
		"microseconds":           {`"100µs"`, ""},
		"microseconds, in ASCII": {`"100us"`, ""},
		"nanoseconds":            {`"1ns"`, ""},
		"zero without a unit":    {`"0"`, ""},
		"zero":                   {`"0s"`, ""},
		"null":                   {`null`, ""},
		"longest accepted":       {`"2562047h"`, ""},
		"longest text":           {`"1h1m1s1ms1us1ns1h1m1s1ms1us1ns1s"`, ""},
		"days":                   {`"1d"`, refused},
		"weeks":                  {`"1w"`, refused},
		"years":                  {`"1y"`, refused},
		"days and hours":         {`"7d12h"`, refused},
		"not a duration":         {`"abc"`, refused},
		"an unknown unit":        {`"5x"`, refused},
		"negative":               {`"-1h"`, refused},
		"plus sign":              {`"+1h"`, refused},
		"space":                  {`"1h 30m"`, refused},
		"overflow":               {`"5000000h"`, refused},
		"a number":               {`15`, `Invalid value: "integer"`},
		"empty text":             {`""`, "should be at least 1 chars long"},
		"text too long":          {`"` + strings.Repeat("1m", 17) + `"`, "may not be more than 32"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectVerdict(t, "ClusterRegistrationToken", "spec: {ttl: "+test.ttl+"}", test.want)
		})
	}
}

func TestAcceptedTokenTTL_CanBeDecoded(t *testing.T) {
	for _, ttl := range []string{"15s", "5m", "2h", "1h30m", "300ms", "1.5h", "100µs", "100us", "1ns", "0", "0s", "2562047h"} {
		t.Run(ttl, func(t *testing.T) {
			expectVerdict(t, "ClusterRegistrationToken", "spec: {ttl: "+`"`+ttl+`"`+"}", "")
			var token fleet.ClusterRegistrationToken
			if err := json.Unmarshal(fmt.Appendf(nil, `{"spec":{"ttl":%q}}`, ttl), &token); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReleaseName_IsValidated(t *testing.T) {
	const pattern, long = "should match", "may not be more than 53"
	tests := map[string]struct{ name, want string }{
		"letters":                {"hello", ""},
		"digits, hyphens, dots":  {"1-a.b-2.c", ""},
		"53 characters":          {strings.Repeat("a", 53), ""},
		"54 characters":          {strings.Repeat("a", 54), long},
		"capitals":               {"Hello", pattern},
		"a hyphen at the end":    {"hello-", pattern},
		"a dot at the beginning": {".hello", pattern},
		"two dots":               {"a..b", pattern},
		"an underscore":          {"a_b", pattern},
		"a path":                 {"a/b", pattern},
		"explicitly empty":       {"", pattern},
	}
	places := map[string]struct{ kind, fields string }{
		"of a Bundle": {"Bundle", "spec: {helm: {releaseName: %q}}"},
		"of a target": {"Bundle", "spec: {targets: [{helm: {releaseName: %q}}]}"},
		"of options":  {"BundleDeployment", "spec: {options: {helm: {releaseName: %q}}}"},
		"staged":      {"BundleDeployment", "spec: {stagedOptions: {helm: {releaseName: %q}}}"},
	}
	for place, in := range places {
		for name, test := range tests {
			t.Run(place+"/"+name, func(t *testing.T) {
				expectVerdict(t, in.kind, fmt.Sprintf(in.fields, test.name), test.want)
			})
		}
	}
}

func TestRolloutStrategy_IsValidated(t *testing.T) {
	tests := map[string]struct{ fields, want string }{
		"numbers":               {"maxUnavailable: 1, maxUnavailablePartitions: 2, autoPartitionSize: 3, autoPartitionThreshold: 4, maxNew: 5", ""},
		"percentages":           {`maxUnavailable: 10%, maxUnavailablePartitions: 20%, autoPartitionSize: 30%`, ""},
		"of a partition":        {`partitions: [{maxUnavailable: 1}, {maxUnavailable: 10%}]`, ""},
		"a list":                {`maxUnavailable: [1]`, `maxUnavailable: Invalid value: "array"`},
		"percentage for maxNew": {`maxNew: 10%`, `maxNew: Invalid value: "string"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectVerdict(t, "Bundle", "spec: {rolloutStrategy: {"+test.fields+"}}", test.want)
		})
	}
}

func TestTargetCustomizationMode(t *testing.T) {
	tests := map[string]struct {
		fields, refused string
		want            fleet.TargetCustomizationMode
	}{
		"the default": {"spec: {}", "", fleet.TargetCustomizationFirstMatch},
		"the first":   {"spec: {targetCustomizationMode: FirstMatch}", "", fleet.TargetCustomizationFirstMatch},
		"all":         {"spec: {targetCustomizationMode: AllMatches}", "", fleet.TargetCustomizationAllMatches},
		"another":     {"spec: {targetCustomizationMode: LastMatch}", `Unsupported value: "LastMatch"`, ""},
		"lower case":  {"spec: {targetCustomizationMode: firstMatch}", `Unsupported value: "firstMatch"`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.refused != "" {
				expectVerdict(t, "Bundle", test.fields, test.refused)
				return
			}
			created, err := resource(t, "Bundle", "modes").Create(t.Context(), object(t, "Bundle", test.fields), strict)
			if err != nil {
				t.Fatal(err)
			}
			got := created.Object["spec"].(map[string]any)["targetCustomizationMode"]
			if got != string(test.want) {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

// This is the heartbeat that our agents and those of Rancher Fleet send.
func TestHeartbeatPatch_ReplacesAgentStatus(t *testing.T) {
	const heartbeat = `[{"op":"add","path":"/status/agent","value":{"lastSeen":"2026-01-02T03:04:05Z","namespace":"cattle-fleet-system"}}]`
	seen := map[string]any{"lastSeen": "2026-01-02T03:04:05Z", "namespace": "cattle-fleet-system"}
	tests := map[string]struct {
		status  map[string]any // before
		refused bool
		want    map[string]any
	}{
		"Cluster without a status: refused": {nil, true, nil},
		"status with a namespace: added": {
			map[string]any{"namespace": "cluster-x"}, false,
			map[string]any{"namespace": "cluster-x", "agent": seen},
		},
		"status with a heartbeat: replaced": {
			map[string]any{"agent": map[string]any{"lastSeen": nil, "namespace": ""}, "apiServerURL": "https://x"}, false,
			map[string]any{"agent": seen, "apiServerURL": "https://x"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := resource(t, "Cluster", "heartbeats")
			cluster := create(t, client, "Cluster", "spec: {clientID: x}", test.status)
			patched, err := client.Patch(t.Context(), cluster, types.JSONPatchType, []byte(heartbeat), metav1.PatchOptions{}, "status")
			if test.refused {
				if !apierrors.IsInvalid(err) {
					t.Errorf("got %v, want it refused as invalid", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, patched.Object["status"]); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// A newer agent may report facts that the hub does not know.
func TestUnknownFieldOfAHeartbeat_IsDropped(t *testing.T) {
	client := resource(t, "Cluster", "heartbeats")
	cluster := create(t, client, "Cluster", "spec: {clientID: x}", map[string]any{})
	const heartbeat = `[{"op":"add","path":"/status/agent","value":{"lastSeen":"2026-01-02T03:04:05Z","namespace":"n","moons":2}}]`
	options := metav1.PatchOptions{FieldValidation: metav1.FieldValidationIgnore}
	patched, err := client.Patch(t.Context(), cluster, types.JSONPatchType, []byte(heartbeat), options, "status")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"agent": map[string]any{"lastSeen": "2026-01-02T03:04:05Z", "namespace": "n"}}
	if diff := cmp.Diff(want, patched.Object["status"]); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// Users see these facts, and agents are not trusted: the CRD limits what they may contain.
func TestClusterFacts_AreValidated(t *testing.T) {
	const version, count = "should match", "should be greater than or equal to 0"
	tests := map[string]struct{ facts, want string }{
		"all facts":                      {`{kubernetesVersion: v1.35.1+k3s1, platform: linux/amd64, nodes: 3, readyNodes: 0, agentVersion: v1.0.0-rc.1}`, ""},
		"no facts":                       {`{}`, ""},
		"spaces in a version":            {`{kubernetesVersion: "v1 of ours"}`, version},
		"control characters":             {`{agentVersion: "v1\e[2J"}`, version},
		"line break":                     {`{platform: "linux\n"}`, version},
		"too long":                       {`{platform: ` + strings.Repeat("a", 65) + `}`, "may not be more than 64"},
		"negative number of nodes":       {`{nodes: -1}`, count},
		"negative number of ready nodes": {`{readyNodes: -1}`, count},
	}
	client := resource(t, "Cluster", "facts")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			facts, err := yaml.YAMLToJSON([]byte(test.facts))
			if err != nil {
				t.Fatal(err)
			}
			cluster := create(t, client, "Cluster", "spec: {clientID: x}", map[string]any{})
			patch := fmt.Sprintf(`[{"op":"add","path":"/status/agent","value":%s}]`, facts)
			_, err = client.Patch(t.Context(), cluster, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}, "status")
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// The API server computes the columns that `kubectl get` shows.
func TestPrinterColumns_ShowStatus(t *testing.T) {
	const ready = `conditions: [{type: Processed, status: "True", message: other}, {type: Ready, status: "False", message: why}]`
	tests := map[string]struct{ fields, status, want string }{
		"Bundle":           {"", `{` + ready + `, display: {readyClusters: 1/2}}`, "BundleDeployments-Ready=1/2 Status=why"},
		"BundleDeployment": {"", `{` + ready + `, display: {deployed: "True", monitored: "False"}}`, "Deployed=True Monitored=False Status=why"},
		"Cluster": {"", `{` + ready + `, display: {readyBundles: 1/2}, agent: {lastSeen: "2026-01-02T03:04:05Z", kubernetesVersion: v1.35.1, nodes: 3, readyNodes: 2, platform: linux/arm64, agentVersion: v1.0.0, credentialExpires: "2026-01-03T03:04:05Z", hubSerial: 7, recoveryKey: MFkwEw-_}}`,
			"Bundles-Ready=1/2 Last-Seen=2026-01-02T03:04:05Z Status=why Kubernetes=v1.35.1 Nodes-Ready=2 Nodes=3 Platform=linux/arm64 Agent=v1.0.0 Credential-Expires=2026-01-03T03:04:05Z"},
		"ClusterGroup":             {"", `{` + ready + `, display: {readyClusters: "1/3 (a,b)", readyBundles: 1/2}}`, "Clusters-Ready=1/3 (a,b) Bundles-Ready=1/2 Status=why"},
		"ClusterRegistration":      {"spec: {clusterLabels: {env: prod}}", `{clusterName: east, granted: true}`, `Cluster-Name=east Labels={"env":"prod"}`},
		"ClusterRegistrationToken": {"", `{secretName: swarm}`, "Secret-Name=swarm"},
	}
	for kind, test := range tests {
		t.Run(kind, func(t *testing.T) {
			client := resource(t, kind, "tables")
			name := create(t, client, kind, test.fields, object(t, kind, "status: "+test.status).Object["status"])
			table := readTable(t, kind, "tables", name)
			var got []string
			for i, column := range table.ColumnDefinitions {
				if column.Name != "Name" {
					got = append(got, fmt.Sprintf("%s=%v", column.Name, table.Rows[0].Cells[i]))
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %s\nwant %s", strings.Join(got, " "), test.want)
			}
		})
	}
}

func TestCategoryFleet_ContainsOnlyClusterGroup(t *testing.T) {
	objects, err := hub(t).Resource(crds).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, crd := range objects.Items {
		names := crd.Object["spec"].(map[string]any)["names"].(map[string]any)
		got[names["kind"].(string)] = names["categories"]
		if crdCondition(&crd, "NonStructuralSchema") != "" {
			t.Errorf("%s: the schema is not structural", crd.GetName())
		}
	}
	want := map[string]any{
		"Bundle": nil, "BundleDeployment": nil, "BundleNamespaceMapping": nil, "Cluster": nil,
		"ClusterGroup": []any{"fleet"}, "ClusterRegistration": nil, "ClusterRegistrationToken": nil, "Content": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
}

// expectVerdict creates an object without keeping it; an empty reason means it is taken.
func expectVerdict(t *testing.T, kind, fields, reason string) {
	t.Helper()
	options := strict
	options.DryRun = []string{metav1.DryRunAll}
	_, err := resource(t, kind, "verdicts").Create(t.Context(), object(t, kind, fields), options)
	switch {
	case reason == "" && err != nil:
		t.Errorf("%s is refused: %v", fields, err)
	case reason != "" && !apierrors.IsInvalid(err):
		t.Errorf("%s: got %v, want it refused as invalid", fields, err)
	case reason != "" && !strings.Contains(err.Error(), reason):
		t.Errorf("%s is refused with %q, want %q in it", fields, err, reason)
	}
}

// create makes an object with a status, and returns its name.
func create(t *testing.T, client dynamic.ResourceInterface, kind, fields string, status any) string {
	t.Helper()
	created, err := client.Create(t.Context(), object(t, kind, fields), strict)
	if err != nil {
		t.Fatal(err)
	}
	if given, ok := status.(map[string]any); ok && given != nil {
		created.Object["status"] = given
		if _, err := client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Fatal(err)
		}
	}
	return created.GetName()
}

func readTable(t *testing.T, kind, namespace, name string) metav1.Table {
	t.Helper()
	config := control.Plane(t).Hub.Config()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("%s/apis/%s/namespaces/%s/%ss/%s", config.Host, fleet.SchemeGroupVersion, namespace, strings.ToLower(kind), name)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var table metav1.Table
	if err := json.NewDecoder(response.Body).Decode(&table); err != nil {
		t.Fatal(err)
	}
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows", len(table.Rows))
	}
	return table
}
