package v1alpha1_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ourKinds are the kinds of this package.
var ourKinds = []string{
	"Bundle", "BundleDeployment", "BundleNamespaceMapping", "Cluster",
	"ClusterGroup", "ClusterRegistration", "ClusterRegistrationToken", "Content",
}

// otherKinds are recorded kinds that this project only stores.
var otherKinds = []string{"GitRepo", "GitRepoRestriction", "HelmOp", "ImageScan", "Policy", "Schedule"}

// decided are our additions to the recorded schemas. They are optional, and Rancher Fleet neither reads nor writes them.
var decided = []struct{ why, pattern string }{
	{"a request reports what it is waiting for",
		`^ClusterRegistration\.schema\.properties\.status\.properties\.conditions: <absent> -> map\[`},
	{"a token reports what it is waiting for",
		`^ClusterRegistrationToken\.schema\.properties\.status\.properties\.conditions: <absent> -> map\[`},
	{"a token reports its default time to live",
		`^ClusterRegistrationToken\.schema\.properties\.status\.properties\.defaultTTL: <absent> -> map\[`},
	{"an agent reports facts about its cluster",
		`^Cluster\.schema\.properties\.status\.properties\.agent\.properties\.(agentVersion|credentialExpires|hubSerial|kubernetesVersion|nodes|platform|readyNodes|recoveryKey|recoveryTicket): <absent> -> map\[`},
	{"a Bundle counts the clusters whose agents are silent", `^Bundle\.schema\.properties\.status\.properties\.unreachable: <absent> -> map\[`},
	{"Fleet owns what it computes as a whole (decision 41)", `\.(options|stagedOptions|summary|display|resourceCounts)\.x-kubernetes-map-type: <absent> -> atomic$`},
	{"wide lists show these facts", `^Cluster\.columns: \[.* name:Status type:string\]\] -> \[.* name:Status type:string\] map\[.* priority:1 type:string\]\]$`},
}

func TestSchemas_EqualTheRecordedSchemas(t *testing.T) {
	used := map[string]bool{}
	for _, kind := range ourKinds {
		t.Run(kind, func(t *testing.T) {
			for _, difference := range differences(kind, recordedCRD(t, kind), ourCRD(t, kind)) {
				why := ""
				for _, addition := range decided {
					if regexp.MustCompile(addition.pattern).MatchString(difference) {
						why = addition.why
					}
				}
				if why == "" {
					t.Errorf("recorded -> ours: %s", difference)
				}
				used[why] = true
			}
		})
	}
	for _, addition := range decided {
		if !used[addition.why] {
			t.Errorf("in the list decided, but not in the schemas: %s", addition.why)
		}
	}
}

func TestFields_EqualTheRecordedFields(t *testing.T) {
	added := map[string][]string{
		"ClusterRegistration":      conditionFields("status.conditions"),
		"ClusterRegistrationToken": append(conditionFields("status.conditions"), "status.defaultTTL"),
		"Bundle":                   {"status.unreachable"},
		"Cluster": {
			"status.agent.agentVersion", "status.agent.credentialExpires", "status.agent.hubSerial", "status.agent.kubernetesVersion", "status.agent.nodes", "status.agent.platform", "status.agent.readyNodes", "status.agent.recoveryKey", "status.agent.recoveryTicket",
		},
	}
	for _, kind := range ourKinds {
		t.Run(kind, func(t *testing.T) {
			recorded := fields(recordedCRD(t, kind))
			for _, field := range added[kind] {
				recorded[field] = true
			}
			ours := fields(ourCRD(t, kind))
			if len(ours) < 4 {
				t.Fatalf("only %d fields: the tree was not walked", len(ours))
			}
			if diff := cmp.Diff(sorted(recorded), sorted(ours)); diff != "" {
				t.Errorf("fields (-recorded and decided +ours):\n%s", diff)
			}
		})
	}
}

func TestRecordedCRDs_AreImplementedOrListed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordedFolder, "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, file := range files {
		names := readDocuments(t, file)[0].object["names"].(map[string]any)
		got[names["kind"].(string)] = true
	}
	want := map[string]bool{}
	for _, kind := range append(append([]string{}, ourKinds...), otherKinds...) {
		want[kind] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-ours and others +recorded):\n%s", diff)
	}
}

func TestPrinterColumns(t *testing.T) {
	ready := `.status.conditions[?(@.type=="Ready")].message`
	tests := map[string][][2]string{
		"Bundle":                 {{"BundleDeployments-Ready", ".status.display.readyClusters"}, {"Status", ready}},
		"BundleDeployment":       {{"Deployed", ".status.display.deployed"}, {"Monitored", ".status.display.monitored"}, {"Status", ready}},
		"BundleNamespaceMapping": nil,
		"Cluster": {
			{"Bundles-Ready", ".status.display.readyBundles"}, {"Last-Seen", ".status.agent.lastSeen"}, {"Status", ready},
			{"Kubernetes", ".status.agent.kubernetesVersion"}, {"Nodes-Ready", ".status.agent.readyNodes"}, {"Nodes", ".status.agent.nodes"},
			{"Platform", ".status.agent.platform"}, {"Agent", ".status.agent.agentVersion"}, {"Credential-Expires", ".status.agent.credentialExpires"},
		},
		"ClusterGroup":             {{"Clusters-Ready", ".status.display.readyClusters"}, {"Bundles-Ready", ".status.display.readyBundles"}, {"Status", ready}},
		"ClusterRegistration":      {{"Cluster-Name", ".status.clusterName"}, {"Labels", ".spec.clusterLabels"}},
		"ClusterRegistrationToken": {{"Secret-Name", ".status.secretName"}},
		"Content":                  nil,
	}
	for _, kind := range ourKinds {
		want, ok := tests[kind]
		if !ok {
			t.Errorf("%s: no columns are given here", kind)
		}
		t.Run(kind, func(t *testing.T) {
			var got [][2]string
			columns, _ := ourCRD(t, kind)["columns"].([]any)
			for _, column := range columns {
				column := column.(map[string]any)
				if column["type"] != "string" && column["type"] != "integer" {
					t.Errorf("%v is of type %v: a time would be shown as an age", column["name"], column["type"])
				}
				got = append(got, [2]string{column["name"].(string), column["jsonPath"].(string)})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCRDs_AreKeptWhenTheChartIsUninstalled(t *testing.T) {
	for _, kind := range ourKinds {
		metadata := readDocuments(t, crdFile(kind))[0].object["metadata"].(map[string]any)
		annotations := metadata["annotations"].(map[string]any)
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s: uninstalling the chart would delete every object of the kind", kind)
		}
	}
}

func TestFields_HaveDescriptions(t *testing.T) {
	// Fields with self-explanatory names, and types of Kubernetes.
	plain := regexp.MustCompile(`(^|\.)(name|namespace|kind|apiVersion|uid|value|enabled|metadata|items|comparePatches|` +
		`clusterName|clusterSelector|clusterGroup|clusterGroupSelector|selector|secretKeyRef|configMapKeyRef|agent\w+\..*|` +
		`ready|notReady|waitApplied|errApplied|outOfSync|modified|pending|missing|unknown|lastTransitionTime|lastUpdateTime)$`)
	for _, kind := range ourKinds {
		crd := readDocuments(t, crdFile(kind))[0].object
		version := crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		root := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		walk("", root, func(path string, schema map[string]any) {
			text, _ := schema["description"].(string)
			if text == "" && !plain.MatchString(path) && path != "" {
				t.Errorf("%s: %s has no description", kind, path)
			}
		})
	}
}

func crdFile(kind string) string {
	return filepath.Join(crdFolder, "fleet.cattle.io_"+strings.ToLower(kind)+"s.yaml")
}

// recordedCRD returns the facts of a recorded CRD, in the form of ourCRD.
func recordedCRD(t *testing.T, kind string) map[string]any {
	t.Helper()
	return facts(t, readDocuments(t, filepath.Join(recordedFolder, "crds", strings.ToLower(kind)+"s.yaml"))[0].object)
}

// ourCRD returns the facts of our CRD, without descriptions.
func ourCRD(t *testing.T, kind string) map[string]any {
	t.Helper()
	crd := readDocuments(t, crdFile(kind))[0].object
	spec := crd["spec"].(map[string]any)
	if spec["group"] != "fleet.cattle.io" {
		t.Errorf("%s: group %v", kind, spec["group"])
	}
	return facts(t, spec)
}

func facts(t *testing.T, spec map[string]any) map[string]any {
	t.Helper()
	versions := spec["versions"].([]any)
	if len(versions) != 1 {
		t.Fatalf("%d versions", len(versions))
	}
	version := versions[0].(map[string]any)
	schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	walk("", schema, func(_ string, schema map[string]any) { delete(schema, "description") })
	return map[string]any{
		"names":        spec["names"],
		"scope":        spec["scope"],
		"version":      version["name"],
		"served":       version["served"],
		"storage":      version["storage"],
		"subresources": version["subresources"],
		"columns":      version["additionalPrinterColumns"],
		"schema":       schema,
	}
}

// walk visits a schema and all schemas in it.
func walk(path string, schema map[string]any, visit func(path string, schema map[string]any)) {
	visit(path, schema)
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, property := range properties {
			walk(strings.TrimPrefix(path+"."+name, "."), property.(map[string]any), visit)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		walk(path+".items", items, visit)
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		walk(path+".items", values, visit)
	}
}

// fields is the tree of a CRD's fields, as paths.
func fields(crd map[string]any) map[string]bool {
	found := map[string]bool{}
	walk("", crd["schema"].(map[string]any), func(path string, _ map[string]any) { found[path] = true })
	return found
}

func conditionFields(path string) []string {
	list := []string{path, path + ".items"}
	for _, name := range []string{"lastTransitionTime", "lastUpdateTime", "message", "reason", "status", "type"} {
		list = append(list, path+".items."+name)
	}
	return list
}
