package drift

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// comparer knows the built-in kinds.
func comparer() Comparer {
	return Comparer{New: func(gvk schema.GroupVersionKind) any {
		if object, err := scheme.Scheme.New(gvk); err == nil {
			return object
		}
		return nil
	}}
}

// object decodes YAML as manifests are decoded.
func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(encoded, &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// example is one comparison.
type example struct {
	desired, live string
	// release holds the other objects of the release.
	release []string
	rules   []fleet.ComparePatch
	// want is the patch, "" for none.
	want string
}

func rulesOf(patches ...fleet.ComparePatch) Rules {
	return RulesOf(&fleet.DiffOptions{ComparePatches: patches})
}

func (e example) expect(t *testing.T) {
	t.Helper()
	in := Input{Desired: object(t, e.desired), Live: object(t, e.live), Rules: rulesOf(e.rules...)}
	var release []*unstructured.Unstructured
	for _, text := range e.release {
		release = append(release, object(t, text))
	}
	in.Autoscalers = AutoscalersOf(release)
	before := []*unstructured.Unstructured{in.Desired.DeepCopy(), in.Live.DeepCopy()}
	patch, err := comparer().Compare(in)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	if patch != nil {
		got = patch.Text(func(text string) string { return text })
	}
	if diff := cmp.Diff(e.want, got); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, []*unstructured.Unstructured{in.Desired, in.Live}); diff != "" {
		t.Errorf("the input was changed (-before +after):\n%s", diff)
	}
}

func expectAll(t *testing.T, examples map[string]example) {
	t.Helper()
	for name, e := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e.expect(t)
		})
	}
}

const (
	configMap   = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}, "
	deployment  = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns}, "
	service     = "{apiVersion: v1, kind: Service, metadata: {name: s, namespace: ns}, "
	clusterRole = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}, "
	secret      = "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ns}, "
	policy      = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: ns}, "
	custom      = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: t, namespace: ns}, "
	apiService  = "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.example.com}, "
)

func containers(text string) string {
	return deployment + "spec: {template: {spec: {containers: [" + text + "]}}}}"
}

func TestCompare_IgnoresFieldsThatAreNotDesired(t *testing.T) {
	t.Parallel()
	expectAll(t, map[string]example{
		"no difference": {
			desired: configMap + "data: {a: b}}", live: configMap + "data: {a: b}}",
		},
		"changed value": {
			desired: configMap + "data: {a: b, c: d}}", live: configMap + "data: {a: x, c: d}}", want: `{"data":{"a":"b"}}`,
		},
		"removed value": {
			desired: configMap + "data: {a: b, c: d}}", live: configMap + "data: {c: d}}", want: `{"data":{"a":"b"}}`,
		},
		"all values removed": {
			desired: configMap + "data: {a: b}}", live: configMap + "data: null}", want: `{"data":{"a":"b"}}`,
		},
		"value added by another client": {
			desired: configMap + "data: {a: b}}", live: configMap + "data: {a: b, c: d}}",
		},
		"label and annotation added by another client": {
			desired: "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: b}}}",
			live:    "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: b, c: d}, annotations: {e: f}}}",
		},
		"changed label": {
			desired: "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: b}}}",
			live:    "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {a: c}}}",
			want:    `{"metadata":{"labels":{"a":"b"}}}`,
		},
		"marks of the set": {
			desired: "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, annotations: {objectset.rio.cattle.io/id: x}}}",
			live:    "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
		},
		"fields that only the server writes": {
			desired: "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, uid: x, resourceVersion: '1', generation: 2, creationTimestamp: null, managedFields: []}}",
			live:    "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, uid: y, resourceVersion: '2', creationTimestamp: '2026-01-01T00:00:00Z'}}",
		},
		"a status": {
			desired: deployment + "status: {replicas: 3}}", live: deployment + "status: {replicas: 1}}",
		},
		"the status of a custom resource": {
			desired: custom + "status: {phase: a}}", live: custom + "status: {phase: b}}",
		},
		"null is ignored": {
			desired: configMap + "data: null}", live: configMap + "data: {a: b}}",
		},
	})
}

func TestServerNotation_CausesNoDrift(t *testing.T) {
	t.Parallel()
	expectAll(t, map[string]example{
		"quantities": {
			desired: containers("{name: a, resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 0.1}}}"),
			live:    containers("{name: a, resources: {limits: {cpu: '1', memory: 1Gi}, requests: {cpu: 100m}}}"),
		},
		"another quantity": {
			desired: containers("{name: a, resources: {limits: {cpu: 1000m}}}"),
			live:    containers("{name: a, resources: {limits: {cpu: '2'}}}"),
			want:    `{"spec":{"template":{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}]}}}}`,
		},
		"quantities in a list that is replaced": {
			desired: "{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Pod, max: {cpu: 2000m}}]}}",
			live:    "{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Pod, max: {cpu: '2'}, min: {cpu: '1'}}]}}",
		},
		"defaults": {
			desired: containers("{name: a, image: i, ports: [{containerPort: 80}]}"),
			live:    containers("{name: a, image: i, imagePullPolicy: Always, terminationMessagePath: /dev/log, ports: [{containerPort: 80, protocol: TCP}]}"),
		},
		"defaults in a list that is replaced": {
			desired: policy + "spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}",
			live:    policy + "spec: {podSelector: {}, ingress: [{ports: [{port: 80, protocol: TCP}]}], policyTypes: [Ingress]}}",
		},
		"zero values that the server omits": {
			desired: containers("{name: a, tty: false, env: [], command: null, resources: {}}"),
			live:    containers("{name: a, resources: {}}"),
		},
		"an empty address that the server assigned": {
			desired: service + "spec: {clusterIP: '', ports: [{port: 80, nodePort: 0}]}}",
			live:    service + "spec: {clusterIP: 10.0.0.1, ports: [{port: 80, nodePort: 30000, protocol: TCP, targetPort: 80}]}}",
		},
		"an empty list that the server fills": {
			desired: policy + "spec: {podSelector: {}, policyTypes: []}}", live: policy + "spec: {podSelector: {}, policyTypes: [Ingress]}}",
		},
		"fields unknown to the type and the server": {
			desired: configMap + "data: {a: b}, dta: {c: d}}", live: configMap + "data: {a: b}}",
		},
		"fields known only to the server": {
			desired: service + "spec: {novelty: {a: 1}, ports: [{port: 80, newer: 1}]}}",
			live:    service + "spec: {novelty: {a: 2}, ports: [{port: 80, newer: 2}]}}",
			want:    `{"spec":{"novelty":{"a":1},"ports":[{"newer":1,"port":80,"targetPort":0}]}}`,
		},
		"ports that are numbers or names": {
			desired: service + "spec: {ports: [{port: 80, targetPort: 8080}, {port: 81, targetPort: web}]}}",
			live:    service + "spec: {ports: [{port: 80, targetPort: 8080}, {port: 81, targetPort: web}]}}",
		},
		"numbers in different representations": {
			desired: custom + "spec: {a: 1.0, b: 2}}", live: custom + "spec: {a: 1, b: 2.0}}",
		},
		"defaults in lists of custom resources": {
			desired: custom + "spec: {list: [{a: 1}, {a: 2}], nested: [[1, 2]]}}",
			live:    custom + "spec: {list: [{a: 1, b: x}, {a: 2, b: x}], nested: [[1, 2]]}}",
		},
		"empty values in a custom resource": {
			desired: custom + "spec: {a: {}, b: [], c: null, d: 1}}", live: custom + "spec: {d: 1}}",
		},
		"zero values in groups of Kubernetes": {
			desired: apiService + "spec: {insecureSkipTLSVerify: false, versionPriority: 1}}", live: apiService + "spec: {versionPriority: 1}}",
		},
		"zero values in custom resources": {
			desired: custom + "spec: {a: false}}", live: custom + "spec: {}}", want: `{"spec":{"a":false}}`,
		},
		"object that does not fit its type: compared literally": {
			desired: deployment + "spec: {replicas: many}}", live: deployment + "spec: {replicas: 1}}", want: `{"spec":{"replicas":"many"}}`,
		},
	})
}

func TestZeroValues_AreDriftWhereTheServerSetsNoDefault(t *testing.T) {
	t.Parallel()
	expectAll(t, map[string]example{
		"no replicas":                  {desired: deployment + "spec: {replicas: 0}}", live: deployment + "spec: {replicas: 1}}", want: `{"spec":{"replicas":0}}`},
		"field switched on":            {desired: containers("{name: a, tty: false}"), live: containers("{name: a, tty: true}"), want: `{"spec":{"template":{"spec":{"containers":[{"name":"a","resources":{}}]}}}}`},
		"empty ingress list":           {desired: policy + "spec: {podSelector: {}, ingress: []}}", live: policy + "spec: {podSelector: {}, ingress: [{}]}}", want: `{"spec":{"ingress":null}}`},
		"ingress list that allows all": {desired: policy + "spec: {podSelector: {}, ingress: [{}]}}", live: policy + "spec: {podSelector: {}}}", want: `{"spec":{"ingress":[{}]}}`},
		"a switch with a default": {
			desired: "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, automountServiceAccountToken: false}",
			live:    "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}", want: `{"automountServiceAccountToken":false}`,
		},
	})
}

func TestLists(t *testing.T) {
	t.Parallel()
	expectAll(t, map[string]example{
		"container added by another client": {
			desired: containers("{name: a, image: i}"), live: containers("{name: mesh, image: m}, {name: a, image: i}"),
		},
		"removed container": {
			desired: containers("{name: a}, {name: b}"), live: containers("{name: b}"),
			want: `{"spec":{"template":{"spec":{"containers":[{"name":"b","resources":{}},{"name":"a","resources":{}}]}}}}`,
		},
		"changed variable, in another order": {
			desired: containers("{name: a, env: [{name: A, value: '1'}, {name: B, value: '2'}]}"),
			live:    containers("{name: a, env: [{name: B, value: '2'}, {name: A, value: x}, {name: C, value: '3'}]}"),
			want:    `{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"B","value":"2"},{"name":"A","value":"1"},{"name":"C","value":"3"}],"name":"a","resources":{}}]}}}}`,
		},
		"toleration added by the server": {
			desired: deployment + "spec: {template: {spec: {tolerations: [{key: a, operator: Exists}]}}}}",
			live:    deployment + "spec: {template: {spec: {tolerations: [{key: b}, {key: a, operator: Exists, effect: NoExecute}]}}}}",
		},
		"changed toleration": {
			desired: deployment + "spec: {template: {spec: {tolerations: [{key: a, operator: Exists}]}}}}",
			live:    deployment + "spec: {template: {spec: {tolerations: [{key: b}]}}}}",
			want:    `{"spec":{"template":{"spec":{"tolerations":[{"key":"b"},{"key":"a","operator":"Exists"}]}}}}`,
		},
		"another order": {
			desired: containers("{name: a, env: [{name: A, value: '1'}, {name: B, value: '2'}]}"),
			live:    containers("{name: a, env: [{name: B, value: '2'}, {name: A, value: '1'}]}"),
		},
		"arguments in another order": {
			desired: containers("{name: a, args: [x, z]}"), live: containers("{name: a, args: [z, x]}"),
			want: `{"spec":{"template":{"spec":{"containers":[{"args":["x","z"],"name":"a","resources":{}}]}}}}`,
		},
		"one port for two protocols": {
			desired: service + "spec: {ports: [{name: a, port: 53, protocol: UDP}, {name: b, port: 53, protocol: TCP}]}}",
			live:    service + "spec: {ports: [{name: b, port: 53, protocol: TCP, targetPort: 53}, {name: a, port: 53, protocol: UDP, targetPort: 53}]}}",
		},
		"changed port": {
			desired: service + "spec: {ports: [{name: a, port: 80, targetPort: 8080}]}}",
			live:    service + "spec: {ports: [{name: a, port: 81, targetPort: 8080, protocol: TCP}]}}",
			want:    `{"spec":{"ports":[{"name":"a","port":81,"protocol":"TCP","targetPort":8080},{"name":"a","port":80,"targetPort":8080}]}}`,
		},
		"finalizers are a set": {
			desired: "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, finalizers: [a.b/c, d.e/f]}}",
			live:    "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, finalizers: [g.h/i, a.b/c]}}",
			want:    `{"metadata":{"finalizers":["g.h/i","a.b/c","d.e/f"]}}`,
		},
		"a strategy without the settings of another": {
			desired: deployment + "spec: {strategy: {type: Recreate}}}",
			live:    deployment + "spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}}",
			want:    `{"spec":{"strategy":{"rollingUpdate":null,"type":"Recreate"}}}`,
		},
		"one rule of two": {
			desired: policy + "spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}, {ports: [{port: 81}]}]}}",
			live:    policy + "spec: {podSelector: {}, ingress: [{ports: [{port: 80, protocol: TCP}]}, {ports: [{port: 82, protocol: TCP}]}]}}",
			want:    `{"spec":{"ingress":[{"ports":[{"port":80,"protocol":"TCP"}]},{"ports":[{"port":81}]}]}}`,
		},
		"more items than desired in a list that is replaced": {
			desired: custom + "spec: {list: [1]}}", live: custom + "spec: {list: [1, 2]}}", want: `{"spec":{"list":[1]}}`,
		},
		"selector with additional labels": {
			desired: service + "spec: {selector: {a: b}}}", live: service + "spec: {selector: {a: b, c: d}}}",
		},
		"another selector": {
			desired: service + "spec: {selector: {a: b}}}", live: service + "spec: {selector: {a: c}}}", want: `{"spec":{"selector":{"a":"b"}}}`,
		},
	})
}

func TestKinds_WithSpecialRules(t *testing.T) {
	t.Parallel()
	const (
		role     = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}, "
		webhooks = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, "
		rollout  = "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, "
	)
	expectAll(t, map[string]example{
		"a Secret's text": {desired: secret + "stringData: {a: hello}}", live: secret + "data: {a: aGVsbG8=}}"},
		"a Secret's text counts before its data": {
			desired: secret + "data: {a: eA==}, stringData: {a: hello}}", live: secret + "data: {a: aGVsbG8=}}",
		},
		"Secret data is not in the patch": {
			desired: secret + "stringData: {a: hello, c: secret}, type: Opaque}", live: secret + "data: {a: eA==}, type: other}",
			want: `{"data":{"a":"<redacted>","c":"<redacted>"},"type":"Opaque"}`,
		},
		"Secret annotations are not in the patch": {
			desired: "{apiVersion: v1, kind: Secret, metadata: {name: s, annotations: {last: '{data: a}'}, labels: {a: b}}}",
			live:    "{apiVersion: v1, kind: Secret, metadata: {name: s}}",
			want:    `{"metadata":{"annotations":{"last":"<redacted>"},"labels":{"a":"b"}}}`,
		},
		"no rules": {desired: role + "rules: []}", live: role + "rules: null}"},
		"rules aggregated by the server": {
			desired: role + "aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}, rules: []}",
			live:    role + "aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}, rules: [{verbs: [get]}]}",
		},
		"changed rule": {
			desired: role + "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}",
			live:    role + "rules: [{apiGroups: [''], resources: [pods], verbs: ['*']}]}",
			want:    `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`,
		},
		"certificates injected by another component": {
			desired: webhooks + "webhooks: [{name: a, clientConfig: {url: u}}, {name: b, clientConfig: {url: u, caBundle: Cg==}}]}",
			live:    webhooks + "webhooks: [{name: a, clientConfig: {url: u, caBundle: YQ==}}, {name: b, clientConfig: {url: u, caBundle: YQ==}}]}",
		},
		"certificates in the bundle": {
			desired: webhooks + "webhooks: [{name: b, clientConfig: {url: u, caBundle: Yg==}}]}",
			live:    webhooks + "webhooks: [{name: b, clientConfig: {url: u, caBundle: YQ==}}]}",
			want:    `{"webhooks":[{"admissionReviewVersions":null,"clientConfig":{"caBundle":"Yg==","url":"u"},"name":"b","sideEffects":null}]}`,
		},
		"endpoints in another order": {
			desired: "{apiVersion: v1, kind: Endpoints, metadata: {name: e}, subsets: [{addresses: [{ip: 1.2.3.5}, {ip: 1.2.3.4}]}, {addresses: [{ip: 1.1.1.1}]}]}",
			live:    "{apiVersion: v1, kind: Endpoints, metadata: {name: e}, subsets: [{addresses: [{ip: 1.1.1.1}]}, {addresses: [{ip: 1.2.3.4}, {ip: 1.2.3.5}]}]}",
		},
		"the pods of a Rollout": {
			desired: rollout + "spec: {template: {spec: {containers: [{name: a, resources: {limits: {cpu: 1000m}}}]}}}}",
			live:    rollout + "spec: {template: {spec: {containers: [{name: a, resources: {limits: {cpu: '1'}}}]}}}}",
		},
	})
}

func TestAutoscalersOfTheRelease_MayScale(t *testing.T) {
	t.Parallel()
	hpa := func(text string) []string {
		return []string{configMap + "data: {}}", "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, " + text + "}"}
	}
	const (
		here   = "metadata: {name: h, namespace: ns}, "
		target = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}"
		drift  = `{"spec":{"replicas":2}}`
	)
	scaled := func(release []string, replicas, want string) example {
		return example{
			desired: deployment + "spec: {replicas: 2}}", live: deployment + "spec: {replicas: " + replicas + "}}", release: release, want: want,
		}
	}
	expectAll(t, map[string]example{
		"without an autoscaler":           scaled(nil, "3", drift),
		"within its limits":               scaled(hpa(here+"spec: {minReplicas: 2, maxReplicas: 3, "+target+"}"), "3", ""),
		"above":                           scaled(hpa(here+"spec: {minReplicas: 2, maxReplicas: 3, "+target+"}"), "4", drift),
		"below":                           scaled(hpa(here+"spec: {minReplicas: 2, maxReplicas: 3, "+target+"}"), "1", drift),
		"below the default":               scaled(hpa(here+"spec: {maxReplicas: 3, "+target+"}"), "0", drift),
		"at the default":                  scaled(hpa(here+"spec: {maxReplicas: 3, "+target+"}"), "1", ""),
		"in another namespace":            scaled(hpa("metadata: {name: h, namespace: other}, spec: {maxReplicas: 3, "+target+"}"), "3", drift),
		"of another kind":                 scaled(hpa(here+"spec: {maxReplicas: 3, scaleTargetRef: {kind: StatefulSet, name: d}}"), "3", drift),
		"of another name":                 scaled(hpa(here+"spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: e}}"), "3", drift),
		"of another group":                scaled(hpa(here+"spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: extensions/v1beta1, kind: Deployment, name: d}}"), "3", drift),
		"without a group":                 scaled(hpa(here+"spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d}}"), "3", ""),
		"other fields are still compared": {desired: deployment + "spec: {replicas: 2, paused: true}}", live: deployment + "spec: {replicas: 3}}", release: hpa(here + "spec: {maxReplicas: 3, " + target + "}"), want: `{"spec":{"paused":true}}`},
		"kinds other than workloads": {
			desired: custom + "spec: {replicas: 2}}", live: custom + "spec: {replicas: 3}}",
			release: hpa(here + "spec: {maxReplicas: 3, scaleTargetRef: {kind: Thing, name: t}}"), want: drift,
		},
	})
}

func TestRules_IgnoreDifferences(t *testing.T) {
	t.Parallel()
	changed := func(rule fleet.ComparePatch, want string) example {
		return example{
			desired: configMap + "data: {a: b, c: d}}", live: configMap + "data: {a: x}}", rules: []fleet.ComparePatch{rule}, want: want,
		}
	}
	const drift = `{"data":{"a":"b","c":"d"}}`
	remove := func(paths ...string) []fleet.Operation {
		var out []fleet.Operation
		for _, path := range paths {
			out = append(out, fleet.Operation{Op: "remove", Path: path})
		}
		return out
	}
	expectAll(t, map[string]example{
		"nothing":                           changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap"}, drift),
		"a path":                            changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", JSONPointers: []string{"/data/a"}}, `{"data":{"c":"d"}}`),
		"paths":                             changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", JSONPointers: []string{"/data/a", "/data/c"}}, ""),
		"a path with everything below":      changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", JSONPointers: []string{"/data"}}, ""),
		"a path that does not exist":        changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", JSONPointers: []string{"/spec/x", "nonsense"}}, drift),
		"a path in many kinds":              changed(fleet.ComparePatch{APIVersion: "v2", Kind: "*Map", JSONPointers: []string{"/data"}}, ""),
		"a path in another group":           changed(fleet.ComparePatch{APIVersion: "apps/v1", Kind: "*", JSONPointers: []string{"/data"}}, drift),
		"a path in another namespace":       changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "m", JSONPointers: []string{"/data"}}, drift),
		"a path for another name":           changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "cc", JSONPointers: []string{"/data"}}, drift),
		"a path for this name":              changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "c", Namespace: "ns", JSONPointers: []string{"/data"}}, ""),
		"a path for many names":             changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "[a-c]", JSONPointers: []string{"/data"}}, ""),
		"invalid regular expression":        changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "[", JSONPointers: []string{"/data"}}, drift),
		"invalid API version":               changed(fleet.ComparePatch{APIVersion: "a/b/c", Kind: "ConfigMap", JSONPointers: []string{"/data"}}, drift),
		"an operation":                      changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c", Operations: remove("/data/a")}, `{"data":{"c":"d"}}`),
		"operations":                        changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c", Operations: remove("/data/a", "/data/c")}, ""),
		"an operation on many kinds":        changed(fleet.ComparePatch{APIVersion: "v1", Kind: "*", Namespace: "ns", Name: "c", Operations: remove("/data")}, drift),
		"values for both sides":             changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c", Operations: []fleet.Operation{{Op: "add", Path: "/data/a", Value: "y"}, {Op: "replace", Path: "/data/c", Value: "z"}}}, ""),
		"a missing object":                  changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c", Operations: []fleet.Operation{{Op: "ignore"}}}, drift),
		"an unknown operation":              changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c", Operations: []fleet.Operation{{Op: "explode", Path: "/data"}}}, drift),
		"an operation without a name":       changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Operations: remove("/data")}, drift),
		"an operation on many names":        changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "[a-c]", Operations: remove("/data")}, drift),
		"an operation without a namespace":  changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "c", Operations: remove("/data")}, drift),
		"an operation in another namespace": changed(fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "m", Name: "c", Operations: remove("/data")}, drift),
		"an operation on a cluster-scoped object": {
			desired: clusterRole + "aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}", live: clusterRole + "aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: c}}]}}",
			rules: []fleet.ComparePatch{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "r", Operations: remove("/aggregationRule")}},
		},
		"the encoded value of a text": {
			desired: secret + "stringData: {a: hello}}", live: secret + "data: {a: eA==}}",
			rules: []fleet.ComparePatch{{APIVersion: "v1", Kind: "Secret", JSONPointers: []string{"/data/a"}}},
		},
		"one container's image": {
			desired: containers("{name: a, image: i, tty: true}"), live: containers("{name: a, image: j, tty: true}"),
			rules: []fleet.ComparePatch{{APIVersion: "apps/v1", Kind: "Deployment", JSONPointers: []string{"/spec/template/spec/containers/0/image"}}},
		},
	})
}

func TestAllowMissing(t *testing.T) {
	t.Parallel()
	ignore := []fleet.Operation{{Op: "ignore"}}
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	tests := map[string]struct {
		rule fleet.ComparePatch
		want bool
	}{
		"all of a kind":                     {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Operations: ignore}, true},
		"one name":                          {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "suspend-1", Namespace: "ns", Operations: ignore}, true},
		"another name":                      {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "suspend-2", Namespace: "ns", Operations: ignore}, false},
		"a regular expression":              {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "^sus.*[0-9]$", Namespace: "ns", Operations: ignore}, true},
		"an expression that matches a part": {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "pend-", Namespace: "ns", Operations: ignore}, true},
		"an expression that does not match": {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "^pend", Namespace: "ns", Operations: ignore}, false},
		"an invalid expression":             {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Name: "(", Namespace: "ns", Operations: ignore}, false},
		"no namespace":                      {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Operations: ignore}, false},
		"another namespace":                 {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "m", Operations: ignore}, false},
		"another kind":                      {fleet.ComparePatch{APIVersion: "v1", Kind: "Secret", Namespace: "ns", Operations: ignore}, false},
		"another version":                   {fleet.ComparePatch{APIVersion: "v2", Kind: "ConfigMap", Namespace: "ns", Operations: ignore}, false},
		"a rule with another operation":     {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Operations: []fleet.Operation{{Op: "remove", Path: "/data"}}}, false},
		"both":                              {fleet.ComparePatch{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Operations: append([]fleet.Operation{{Op: "remove", Path: "/data"}}, ignore...)}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := rulesOf(test.rule).AllowMissing(gvk, "ns", "suspend-1"); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if RulesOf(nil).AllowMissing(gvk, "ns", "a") {
		t.Error("an object may be missing without rules")
	}
}

// Lists may be as long as an object. The work is counted in allocations, of which each comparison of two items makes some.
func TestLongLists_AreMergedWithLinearWork(t *testing.T) {
	named := func(prefix string, i int) any { return map[string]any{"name": fmt.Sprint(prefix, i)} }
	byName := listRule{merged: true, key: "name"}
	for name, test := range map[string]struct {
		item func(prefix string, i int) any
		rule listRule
		// kept are the items of both lists that the result has, per item of one list.
		kept int
	}{
		"by key": {named, byName, 2},
		"by key, all keys equal": {func(prefix string, i int) any {
			return map[string]any{"name": "same", "value": fmt.Sprint(prefix, i)}
		}, byName, 1},
		"as a set": {func(prefix string, i int) any { return fmt.Sprint(prefix, i) }, listRule{merged: true}, 2},
		"a list that others extend": {func(prefix string, i int) any {
			return map[string]any{"key": fmt.Sprint(prefix, i)}
		}, listRule{open: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			work := func(count int) float64 {
				var live, wanted, got []any
				for i := range count {
					live, wanted = append(live, test.item("a", i)), append(wanted, test.item("b", i))
				}
				allocations := testing.AllocsPerRun(1, func() { got, _ = mergeList(live, wanted, test.rule).([]any) })
				if len(got) != test.kept*count {
					t.Errorf("%d items of %d and %d", len(got), count, count)
				}
				if again, _ := mergeList(got, wanted, test.rule).([]any); !test.rule.open && !reflect.DeepEqual(again, got) {
					t.Error("what was merged differs again")
				}
				return allocations
			}
			if few, many := work(500), work(2000); many > 6*few {
				t.Errorf("four times as many items take %.0f times the work", many/few)
			}
		})
	}
}

// A webhook may put a toleration before the others.
func TestLongListExtendedInFront_Matches(t *testing.T) {
	const count = 3 * mostTried
	var live, want []any
	live = append(live, map[string]any{"key": "added"})
	for i := range count {
		item := map[string]any{"key": fmt.Sprint(i), "operator": "Exists"}
		live, want = append(live, item), append(want, item)
	}
	if got := mergeList(live, want, listRule{open: true}); !reflect.DeepEqual(got, live) {
		t.Errorf("%d items differ from %d", len(got.([]any)), len(live))
	}
}
