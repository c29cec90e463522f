package parity_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/parity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	systemUID = "2f3ef2b9-a098-4add-8b24-98f3f760a28c"
	random    = "vr6gz9z88jbjn2x5btgft4zfjtgqb8fm8pkfdp9q7bx4l26kr6lqvg"
	uidA      = "789af420-89ab-4b93-8745-8b84267b8d74"
	uidB      = "ffc23186-d4e6-468d-b409-323578d126f4"
	// The recorded names that are derived from these.
	recordedCluster    = "cluster-3f8a81b9896a"
	recordedNamespace  = "cluster-fleet-default-cluster-3f8a81b9896a-c330adc823da"
	recordedCredential = "c-40fc3c1869b8b4f993dd574c33cd29b01f352d4c0cae3b255bd69df90ff66"
	recordedSet        = "5b8f70ba6b194285a20ba662b8bf8d925f5b6fd8"
)

// joined returns the objects of a cluster that registered agent-initiated.
func joined(t *testing.T) []parity.Object {
	return []parity.Object{
		on(t, "hub", `{kind: Cluster, metadata: {name: `+recordedCluster+`, namespace: fleet-default, labels: {env: prod}, uid: u-cluster},
			spec: {clientID: `+systemUID+`}, status: {namespace: `+recordedNamespace+`}}`),
		on(t, "hub", `{kind: ClusterRegistration, metadata: {name: request-pvwtt, namespace: fleet-default, uid: `+uidA+`},
			spec: {clientID: `+systemUID+`, clientRandom: `+random+`}, status: {clusterName: `+recordedCluster+`}}`),
		on(t, "hub", `{kind: ClusterRegistrationToken, metadata: {name: swarm, namespace: fleet-default, uid: `+uidB+`}}`),
		on(t, "hub", `{kind: Secret, metadata: {name: `+recordedCredential+`, namespace: ns, uid: u-secret, labels: {objectset.rio.cattle.io/hash: `+recordedSet+`},
			annotations: {objectset.rio.cattle.io/id: cluster-registration, objectset.rio.cattle.io/owner-name: request-pvwtt,
			objectset.rio.cattle.io/owner-namespace: fleet-default, objectset.rio.cattle.io/owner-gvk: "fleet.cattle.io/v1alpha1, Kind=ClusterRegistration"}}}`),
		on(t, "hub", `{kind: ServiceAccount, metadata: {name: request-pvwtt-`+uidA+`, namespace: `+recordedNamespace+`, uid: u-account}}`),
	}
}

func TestNames_AreDerivedByTheContract(t *testing.T) {
	const cluster = "<cluster env=prod>"
	const request = "<request of " + cluster + ">"
	tests := map[string]struct{ is, want string }{
		"a Cluster that is named after its client ID": {recordedCluster, cluster},
		"its namespace":                       {recordedNamespace, "<namespace of " + cluster + ">"},
		"its client ID":                       {systemUID, "<client ID of " + cluster + ">"},
		"its request":                         {"request-pvwtt", request},
		"its random":                          {random, "<random of request of " + cluster + ">"},
		"the Secret that answers it":          {recordedCredential, "<credential of request of " + cluster + ">"},
		"a name among others":                 {"Bundle fleet-agent-" + recordedCluster + " of it", "Bundle fleet-agent-" + cluster + " of it"},
		"a UID in the name of another object": {"swarm-" + uidB + "-role", "swarm-<uid of hub ClusterRegistrationToken fleet-default/swarm>-role"},
		"an account is named after the request and its UID": {
			"request-pvwtt-" + uidA, request + "-<uid of hub ClusterRegistration fleet-default/" + request + ">",
		},
		"the UID of such an account": {
			"u-account", "<uid of hub ServiceAccount <namespace of " + cluster + ">/" + request + "-<uid of hub ClusterRegistration fleet-default/" + request + ">>",
		},
		"the hash of a set":         {recordedSet, "<hash of set cluster-registration of fleet-default/" + request + ">"},
		"an address that was given": {"https://10.0.0.1:6443/x", "<hub>/x"},
		"unknown value":             {"cluster-000000000000", "cluster-000000000000"},
		"UID of an unknown object":  {"11111111-89ab-4b93-8745-8b84267b8d74", "11111111-89ab-4b93-8745-8b84267b8d74"},
	}
	n := parity.NewNames(joined(t), map[string]string{"https://10.0.0.1:6443": "<hub>", "": "nothing"})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := n.Text(test.is); got != test.want {
				t.Errorf("%s became\n%s, want\n%s", test.is, got, test.want)
			}
		})
	}
}

// TestNames_IgnoreContractViolations changes one field at a time. Values derived from it must keep their own
// name, so that they differ from the recorded ones.
func TestNames_IgnoreContractViolations(t *testing.T) {
	tests := map[string]struct {
		object int
		path   []string
		value  string
		keeps  string
	}{
		"a Cluster that is not named after its client ID": {0, []string{"spec", "clientID"}, "another", recordedCluster},
		"a namespace that is not that of the Cluster":     {0, []string{"status", "namespace"}, "elsewhere", "elsewhere"},
		"a client ID of another form":                     {0, []string{"spec", "clientID"}, "mine", "mine"},
		"a request of another name":                       {1, []string{"metadata", "name"}, "req-1", "req-1"},
		"a random that is too short":                      {1, []string{"spec", "clientRandom"}, "abc", "abc"},
		"a credential for another random":                 {1, []string{"spec", "clientRandom"}, random[1:] + "b", recordedCredential},
		"a hash of another set":                           {3, []string{"metadata", "annotations", "objectset.rio.cattle.io/id"}, "other", recordedSet},
		"a hash of a set without an owner":                {3, []string{"metadata", "annotations", "objectset.rio.cattle.io/owner-name"}, "", recordedSet},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := joined(t)
			in := objects[test.object].Fields
			for _, key := range test.path[:len(test.path)-1] {
				in = in[key].(map[string]any)
			}
			in[test.path[len(test.path)-1]] = test.value
			if got := parity.NewNames(objects, nil).Text(test.keeps); got != test.keeps {
				t.Errorf("%s became %s", test.keeps, got)
			}
		})
	}
}

func TestTwoRequestsOfOneCluster_HaveDifferentNames(t *testing.T) {
	objects := append(joined(t), on(t, "hub", `{kind: ClusterRegistration, metadata: {name: request-zzzzz, namespace: fleet-default, uid: u-2}, status: {clusterName: `+recordedCluster+`}}`))
	if got, want := parity.NewNames(objects, nil).Text("request-zzzzz"), "<request of <cluster env=prod>, number 2>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHashesOfValues_AreNamed(t *testing.T) {
	values := `{"cluster":"` + recordedCluster + `","greeting":"bonjour"}`
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(values+values)))
	// The recorded ID of Bundle hello on west.
	const options = "3559c925f28d338461929875ac20b7bfa6ddb795dec0d618ebd81b451a4599fa"
	deployment := on(t, "hub", `{kind: BundleDeployment, metadata: {name: hello, namespace: `+recordedNamespace+`}, spec: {options: {defaultNamespace: hello, helm: {}}}}`)
	secret := on(t, "hub", `{kind: Secret, metadata: {name: hello, namespace: `+recordedNamespace+`}, decodedData: {values: '`+values+`', stagedValues: '`+values+`'}}`)
	const place = "hub BundleDeployment <namespace of <cluster env=prod>>/hello"

	n := parity.NewNames(append(joined(t), deployment, secret), nil)
	want := "<hash of the values of " + place + "> s-1:<hash of the options of " + place + ">"
	if diff := cmp.Diff(want, n.Text(sum+" s-1:"+options)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	t.Run("without a random name in them they are compared as they are", func(t *testing.T) {
		plain := on(t, "hub", `{kind: Secret, metadata: {name: hello, namespace: `+recordedNamespace+`}, decodedData: {values: '{}', stagedValues: '{}'}}`)
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte("{}{}")))
		if got := parity.NewNames(append(joined(t), deployment, plain), nil).Text(sum); got != sum {
			t.Errorf("%s became %s", sum, got)
		}
	})
	t.Run("values in the BundleDeployment are named, too", func(t *testing.T) {
		inline := on(t, "hub", `{kind: BundleDeployment, metadata: {name: hello, namespace: `+recordedNamespace+`}, spec: {options: {defaultNamespace: hello, helm: {values: `+values+`}}}}`)
		if got := parity.NewNames(append(joined(t), inline), nil).Text("s-1:" + options); got != "s-1:<hash of the options of "+place+">" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("without the Secret they are nothing anybody could know", func(t *testing.T) {
		if got := parity.NewNames(append(joined(t), deployment), nil).Text(sum); got != sum {
			t.Errorf("%s became %s", sum, got)
		}
	})
}

func TestHashOfTheHubsCA_IsNamed(t *testing.T) {
	sum, err := names.StatusHash([]byte("PEM"))
	if err != nil {
		t.Fatal(err)
	}
	config := on(t, "hub", "{kind: ConfigMap, metadata: {name: fleet-controller}, data: {config: {apiServerCA: UEVN}}}")
	if got, want := parity.NewNames([]parity.Object{config}, nil).Text(sum), "<hash of the hub's CA>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestText_ReplacesKnownForms(t *testing.T) {
	tests := map[string]struct{ is, want string }{
		"a time":                  {"seen 2026-11-21T07:43:36Z", "seen <time>"},
		"a time with parts":       {"2026-11-21T07:43:36.844895Z", "<time>"},
		"a date":                  {"2026-11-21", "2026-11-21"},
		"a certificate":           {"-----BEGIN CERTIFICATE-----\nMII/+=\n-----END CERTIFICATE-----\n", "<PEM CERTIFICATE>\n"},
		"a certificate in base64": {`"LS0tLS1CRUdJTiBDRVJU+/=="`, `"<base64 PEM>"`},
		"that of a kubeconfig":    {"  certificate-authority-data: LS0t\n  server: x", "  certificate-authority-data: <base64 PEM>\n  server: x"},
		"as it was recorded":      {"certificate-authority-data: <base64 PEM>\n", "certificate-authority-data: <base64 PEM>\n"},
		"a token":                 {"token: eyJhbGci.eyJpc3M.c2ln-_x", "token: <JWT>"},
		"what was a release":      {"<release, 4496 bytes>", "<release>"},
		"what was applied":        {"<gzip+base64, 712 chars>", "<applied>"},
		"a pod of the agent":      {"fleet-agent-67c6bbb6d9-6448l", "<pod of fleet-agent>"},
		"its process":             {"fleet-agent-67c6bbb6d9-6448l-1", "<pod of fleet-agent>-1"},
		"a Bundle of an agent":    {"fleet-agent-east", "fleet-agent-east"},
		"a role of an agent":      {"fleet-agent-system-fleet-agent-role", "fleet-agent-system-fleet-agent-role"},
		"an account":              {"fleet-controller-bootstrap-token", "fleet-controller-bootstrap-token"},
		"a ReplicaSet":            {`ReplicaSet "pause-784ddc56c8" has`, `ReplicaSet "<of pause>" has`},
		"seconds":                 {"1795247061", "<seconds>"},
		"any other number":        {"17952470611", "17952470611"},
	}
	n := parity.NewNames(nil, nil)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := n.Text(test.is); got != test.want {
				t.Errorf("%q became %q, want %q", test.is, got, test.want)
			}
		})
	}
}

func TestOf_ReplacesKeysAndValues(t *testing.T) {
	is := on(t, "hub", `{kind: Role, metadata: {uid: u, name: request-pvwtt}, list: [request-pvwtt, 1, {request-pvwtt: [request-pvwtt]}], none: null, flag: true}`)
	want := on(t, "hub", `{kind: Role, metadata: {name: <r>}, list: [<r>, 1, {<r>: [<r>]}], none: null, flag: true}`)
	got := parity.NewNames(nil, map[string]string{"request-pvwtt": "<r>"}).Of(is)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
