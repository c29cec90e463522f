package objects

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"helm.sh/helm/v3/pkg/kube"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest/fake"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// applied returns what the API server makes of the patch between three versions of an object.
func applied(t *testing.T, before, target, live string) string {
	t.Helper()
	info := infoOf(t, target)
	was, err := json.Marshal(info.Object)
	if err != nil {
		t.Fatal(err)
	}
	current, err := deploytest.ObjectOf(t, live).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	patchType, patch, err := threeWayPatch(infoOf(t, before).Object, info, infoOf(t, live).Object)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := json.Marshal(info.Object); err != nil || string(is) != string(was) {
		t.Errorf("target was changed: %s %v", is, err)
	}
	out, err := apply(current, patchType, patch, info)
	if err != nil {
		t.Fatalf("%s %s: %v", patchType, patch, err)
	}
	return string(out)
}

func apply(live []byte, patchType types.PatchType, patch []byte, info *resource.Info) ([]byte, error) {
	if patchType == types.MergePatchType {
		return jsonpatch.MergePatch(live, patch)
	}
	return strategicpatch.StrategicMergePatch(live, patch, kube.AsVersioned(info))
}

func TestListsWithoutUniqueKeys_ArePatched(t *testing.T) {
	service := func(ports string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: web}\nspec: {ports: [" + ports + "]}\n"
	}
	pod := func(spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: web}\nspec: {template: {spec: {" + spec + "}}}\n"
	}
	container := func(fields string) string { return pod("containers: [{name: c, image: x, " + fields + "}]") }
	account := func(list string) string {
		return "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: web}\nsecrets: [" + list + "]\n"
	}
	const (
		tcp, udp         = "{port: 443, protocol: TCP}", "{port: 443, protocol: UDP}"
		liveTCP, liveUDP = "{port: 443, protocol: TCP, targetPort: 443, nodePort: 30001}", "{port: 443, protocol: UDP, targetPort: 443, nodePort: 30002}"
		dns              = "{port: 53, protocol: UDP, targetPort: 53}, {port: 53, protocol: TCP, targetPort: 53}"
		dnsMoved         = "{port: 53, protocol: UDP, targetPort: 1053}, {port: 53, protocol: TCP, targetPort: 1053}"
		both             = "ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]"
		spread           = "{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}"
		spreadSoft       = "{topologyKey: zone, maxSkew: 2, whenUnsatisfiable: ScheduleAnyway}"
		side             = "{name: side, image: y, env: [{name: B, value: v}]}"
		mixed            = "{name: A, value: one}, {name: B, value: $(A)}, {name: A, value: two}"
	)
	tests := map[string]struct{ before, target, live, want string }{
		"a port is dropped":                           {service(tcp + "," + udp), service(tcp), service(liveTCP + "," + liveUDP), service(liveTCP)},
		"the first port is dropped":                   {service(tcp + "," + udp), service(udp), service(liveTCP + "," + liveUDP), service(liveUDP)},
		"a port is added in front":                    {service(tcp), service(udp + "," + tcp), service(liveTCP), service(udp + "," + liveTCP)},
		"a port is added at the end":                  {service(tcp), service(tcp + "," + udp), service(liveTCP), service(liveTCP + "," + udp)},
		"both ports change":                           {service(dns), service(dnsMoved), service(dns), service(dnsMoved)},
		"the protocol is a default":                   {service("{port: 443}," + udp), service("{port: 443, targetPort: 1}," + udp), service(liveTCP + "," + liveUDP), service("{port: 443, protocol: TCP, targetPort: 1, nodePort: 30001}," + liveUDP)},
		"a port that changed gets another number":     {service(tcp + "," + udp), service(tcp + ", {port: 444, protocol: UDP}"), service(liveTCP + "," + liveUDP), service(liveTCP + ", {port: 444, protocol: UDP}")},
		"another writer's port stays":                 {service(tcp), service(tcp + ", {port: 80, protocol: TCP}"), service(liveTCP + "," + liveUDP), service(liveTCP + ", {port: 80, protocol: TCP}," + liveUDP)},
		"a port of the container is dropped":          {container(both), container("ports: [{containerPort: 53, protocol: TCP}]"), container(both), container("ports: [{containerPort: 53, protocol: TCP}]")},
		"all ports of the container are dropped":      {container(both), container("tty: true"), container(both), container("tty: true")},
		"the ports become an empty list":              {container(both), container("ports: []"), container(both), container("ports: []")},
		"a new container":                             {pod("containers: []"), container(both), pod("containers: [" + side + "]"), pod("containers: [{name: c, image: x, " + both + "}, " + side + "]")},
		"a container that lost its ports":             {container(both), container(both), container("tty: true"), container("tty: true, " + both)},
		"a deleted container":                         {container(both), container("ports: [{containerPort: 53, protocol: TCP}]"), pod("containers: [" + side + "]"), pod("containers: [{name: c, image: x, ports: [{containerPort: 53, protocol: TCP}]}, " + side + "]")},
		"a variable changes, and a field goes":        {container("tty: true, env: [{name: A, value: v1}, {name: A, value: v2}]"), container("env: [{name: A, value: v1}, {name: A, value: v3}]"), container("tty: true, stdin: true, env: [{name: A, value: v1}, {name: A, value: v2}]"), container("stdin: true, env: [{name: A, value: v1}, {name: A, value: v3}]")},
		"a variable is dropped":                       {container("env: [{name: A, value: v1}, {name: A, value: v2}]"), container("env: [{name: A, value: v2}]"), container("env: [{name: A, value: v1}, {name: A, value: v2}]"), container("env: [{name: A, value: v2}]")},
		"variables keep their order":                  {container("env: [{name: A, value: old}]"), container("env: [" + mixed + "]"), container("env: [{name: A, value: old}]"), container("env: [" + mixed + "]")},
		"variables of init containers":                {pod("initContainers: [{name: i, env: [" + mixed + "]}]"), pod("initContainers: [{name: i, env: [{name: A, value: one}]}]"), pod("initContainers: [{name: i, env: [" + mixed + "]}]"), pod("initContainers: [{name: i, env: [{name: A, value: one}]}]")},
		"injected containers and variables stay":      {container("env: [" + mixed + "]"), container("env: [{name: A, value: new}, {name: A, value: two}]"), pod("containers: [" + side + ", {name: c, image: x, env: [{name: INJECTED, value: v}, " + mixed + "]}]"), pod("containers: [" + side + ", {name: c, image: x, env: [{name: A, value: new}, {name: A, value: two}, {name: INJECTED, value: v}]}]")},
		"an injected variable in front stays there":   {container("env: [" + mixed + "]"), container("tty: true, env: [" + mixed + "]"), container("env: [{name: INJECTED, value: v}, " + mixed + "]"), container("tty: true, env: [{name: INJECTED, value: v}, " + mixed + "]")},
		"a default inside of a variable stays":        {container("env: [" + mixed + ", {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]"), container("env: [" + mixed + ", {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]"), container("env: [" + mixed + ", {name: IP, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: status.podIP}}}]"), container("env: [" + mixed + ", {name: IP, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: status.podIP}}}]")},
		"a constraint is dropped":                     {pod("topologySpreadConstraints: [" + spread + "," + spreadSoft + "]"), pod("topologySpreadConstraints: [" + spreadSoft + "]"), pod("topologySpreadConstraints: [" + spread + "," + spreadSoft + "]"), pod("topologySpreadConstraints: [" + spreadSoft + "]")},
		"a constraint is added in front":              {pod("topologySpreadConstraints: [" + spreadSoft + "]"), pod("topologySpreadConstraints: [" + spread + "," + spreadSoft + "]"), pod("topologySpreadConstraints: [" + spreadSoft + "]"), pod("topologySpreadConstraints: [" + spread + "," + spreadSoft + "]")},
		"an empty name is corrected":                  {account("{name: ''}"), account("{name: pull}"), account("{}"), account("{name: pull}")},
		"an empty name is corrected in a template":    {pod("imagePullSecrets: [{name: ''}]"), pod("imagePullSecrets: [{name: pull}]"), pod("imagePullSecrets: [{}]"), pod("imagePullSecrets: [{name: pull}]")},
		"an empty name stays":                         {account("{name: ''}"), account("{name: ''}"), account("{}"), account("{name: ''}")},
		"an empty name goes, another writer's stays":  {account("{name: ''}"), account(""), account("{}, {name: other}"), account("{name: other}")},
		"another field beside an empty name":          {pod("imagePullSecrets: [{name: ''}], priority: 1"), pod("imagePullSecrets: [{name: ''}], priority: 2"), pod("imagePullSecrets: [{}], priority: 1"), pod("imagePullSecrets: [{name: ''}], priority: 2")},
		"the list with an empty name is dropped":      {pod("imagePullSecrets: [{name: ''}], priority: 1"), pod("priority: 1"), pod("imagePullSecrets: [{}], priority: 1"), pod("priority: 1")},
		"an empty name that is no longer in the list": {account("{}"), account("{name: pull}"), account(""), account("{name: pull}")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := applied(t, test.before, test.target, test.live)
			if diff := cmp.Diff(deploytest.ObjectOf(t, test.want), decoded(t, got)); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if again := applied(t, test.target, test.target, got); again != got {
				t.Errorf("another upgrade changes it to %s", again)
			}
		})
	}
}

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestUnchangedListWithoutUniqueKeys_NeedsNoPatch(t *testing.T) {
	const target = "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: web}\nspec: {ports: [{port: 53, protocol: UDP}, {port: 53}]}\n"
	const live = "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: web}\nspec: {clusterIP: 10.0.0.1, ports: [{port: 53, protocol: UDP, nodePort: 30001}, {port: 53, protocol: TCP, nodePort: 30002}]}\n"
	_, patch, err := threeWayPatch(infoOf(t, target).Object, infoOf(t, target), infoOf(t, live).Object)
	if err != nil || string(patch) != "{}" {
		t.Errorf("patch %s, error %v", patch, err)
	}
}

func TestListWithoutUniqueKeysChangedMeanwhile_IsMergedAgain(t *testing.T) {
	service := func(ports string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: web}\nspec: {ports: [" + ports + "]}\n"
	}
	const mine, others = `{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}`, `,{"port":80,"protocol":"TCP"}`
	for name, test := range map[string]struct {
		changes, patches int
		fails            bool
	}{
		"unchanged: one patch":          {0, 1, false},
		"another port added: two":       {1, 2, false},
		"changes each time: an error":   {100, 4, true},
		"changes three times: accepted": {3, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			version, patches, stored := 1, 0, service(mine)
			info := infoOf(t, service(`{"port":53,"protocol":"UDP","targetPort":1053},{"port":53,"protocol":"TCP"}`))
			info.Client = &fake.RESTClient{
				NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
				Client: fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) {
					live := deploytest.ObjectOf(t, stored)
					live.SetResourceVersion(fmt.Sprint(version))
					text, err := live.MarshalJSON()
					if err != nil || r.Method == http.MethodGet {
						return answer(http.StatusOK, string(text)), err
					}
					if patches++; patches <= test.changes {
						version, stored = version+1, service(mine+others)
					}
					patch, err := io.ReadAll(r.Body)
					if err != nil {
						return nil, err
					}
					out, err := jsonpatch.MergePatch(text, patch)
					if err != nil {
						return nil, err
					}
					if got := decoded(t, string(out)).GetResourceVersion(); got != fmt.Sprint(version) {
						return answer(http.StatusConflict, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Conflict","code":409}`), nil
					}
					stored = string(out)
					return answer(http.StatusOK, stored), nil
				}),
			}
			before := kube.ResourceList{infoOf(t, service(mine))}
			created, err := New(&access.Identity{}, placement.Release{Namespace: "web", Name: "mine"}, nil).
				update([]kube.ResourceList{before}, nil, info, false)
			if created || (err != nil) != test.fails || patches != test.patches {
				t.Fatalf("created %t, patches %d, error %v", created, patches, err)
			}
			ports, _, err := unstructured.NestedSlice(deploytest.ObjectOf(t, stored).Object, "spec", "ports")
			if want := 2 + min(test.changes, 1); err != nil || len(ports) != want {
				t.Errorf("ports %v, want %d, error %v", ports, want, err)
			}
		})
	}
}
