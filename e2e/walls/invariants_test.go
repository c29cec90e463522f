package walls_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// unwatched is what the control plane itself writes all the time.
func unwatched() map[string]bool {
	return map[string]bool{
		"leases": true, "endpoints": true, "endpointslices": true, "events": true, "flowschemas": true,
		"prioritylevelconfigurations": true, "nodes": true, "csinodes": true, "componentstatuses": true,
	}
}

// observer watches every object of every kind and notes what breaks a wall.
type observer struct {
	// neutral are the namespaces of the tenant that only shows how far the controllers are.
	neutral map[string]bool
	// secrets are the texts that the attacker must not see.
	secrets *regexp.Regexp
	tokens  []string

	mu       sync.Mutex // guards what follows
	armed    bool
	own      map[string]bool // the attacker's namespaces
	contents map[string]bool // those that others used before
	// credentials are names of Secrets in the registration namespace that are not the attacker's.
	credentials map[string]bool
	violations  []string
	events      int
	// said is what the values and the Secret show that the neutral tenant's agent would read, seen is closed when that
	// changes.
	said map[string]string
	seen chan struct{}
}

func newObserver(w *world) *observer {
	return &observer{
		neutral:  map[string]bool{w.neutral.workspace: true, w.neutral.namespace: true},
		secrets:  regexp.MustCompile(`canary-of-(` + victim + `|fleet-|kube-|cattle-)[\w-]+`),
		own:      map[string]bool{w.attacker.workspace: true, w.attacker.namespace: true},
		contents: map[string]bool{}, credentials: map[string]bool{}, said: map[string]string{}, seen: make(chan struct{}),
	}
}

// await returns when the neutral tenant's agent would read a text in both of its Secrets.
func (o *observer) await(ctx context.Context, text string) error {
	for {
		o.mu.Lock()
		there, seen := strings.Contains(o.said["db"], text) && strings.Contains(o.said["shop"], text), o.seen
		o.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-seen:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to pass the controllers: %w", text, ctx.Err())
		}
	}
}

// observe returns when every kind is watched.
func observe(ctx context.Context, config *rest.Config, o *observer) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	kinds, err := watchable(config)
	if err != nil {
		return err
	}
	informers := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0)
	for _, kind := range kinds {
		handlers := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(now any) { o.changed(kind, nil, object(now)) },
			UpdateFunc: func(before, now any) { o.changed(kind, object(before), object(now)) },
			DeleteFunc: func(before any) { o.changed(kind, object(before), nil) },
		}
		if _, err := informers.ForResource(kind).Informer().AddEventHandler(handlers); err != nil {
			return err
		}
	}
	informers.Start(ctx.Done())
	for kind, synced := range informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("watching %s: %w", kind, ctx.Err())
		}
	}
	return nil
}

func watchable(config *rest.Config) ([]schema.GroupVersionResource, error) {
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := finder.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	var kinds []schema.GroupVersionResource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "watch") && !unwatched()[r.Name] {
				kinds = append(kinds, version.WithResource(r.Name))
			}
		}
	}
	return kinds, nil
}

func object(o any) *unstructured.Unstructured {
	if gone, is := o.(cache.DeletedFinalStateUnknown); is {
		o = gone.Obj
	}
	object, _ := o.(*unstructured.Unstructured) // the informers have no others
	return object
}

// changed judges one change of one object.
func (o *observer) changed(kind schema.GroupVersionResource, before, now *unstructured.Unstructured) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if kind.Resource == "secrets" && now != nil && o.neutral[now.GetNamespace()] && now.GetNamespace() != neutral {
		o.said[now.GetName()] = plain(now)
		close(o.seen)
		o.seen = make(chan struct{})
	}
	if !o.armed {
		o.remember(kind, now)
		return
	}
	if before != nil && now != nil && equality.Semantic.DeepEqual(essence(before), essence(now)) {
		return
	}
	o.events++
	either := now
	if now == nil {
		either = before
	}
	if o.mayChange(kind, before, now, either) {
		if secret := o.readable(now); secret != "" {
			o.violateLocked("%s %s/%s shows %s", kind.Resource, now.GetNamespace(), now.GetName(), secret)
		}
		return
	}
	how := "was changed:\n    before " + textOf(before) + "\n    now    " + textOf(now)
	switch {
	case before == nil:
		how = "appeared: " + textOf(now)
	case now == nil:
		how = "is gone"
	}
	o.violateLocked("%s %s/%s %s", kind.Resource, either.GetNamespace(), either.GetName(), how)
}

// violate notes what breaks a wall.
func (o *observer) violate(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violateLocked(format, args...)
}

// violateLocked is violate for callers that hold the lock.
func (o *observer) violateLocked(format string, args ...any) {
	o.violations = append(o.violations, fmt.Sprintf(format, args...))
}

// textOf leaves the data of Secrets out, since what is printed ends in logs.
func textOf(u *unstructured.Unstructured) string {
	if u == nil {
		return ""
	}
	shown := essence(u)
	if u.GetKind() == "Secret" {
		for _, key := range []string{"data", "stringData"} {
			if _, has := shown[key]; has {
				shown[key] = "(hidden)"
			}
		}
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// essence is an object without what each write of it changes.
func essence(u *unstructured.Unstructured) map[string]any {
	copied := u.DeepCopy()
	copied.SetResourceVersion("")
	copied.SetManagedFields(nil)
	copied.SetGeneration(0)
	return copied.Object
}

// used returns how many Contents others use.
func (o *observer) used() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.contents)
}

// remember notes what is there before the first request.
func (o *observer) remember(kind schema.GroupVersionResource, u *unstructured.Unstructured) {
	if u == nil {
		return
	}
	switch {
	case kind.Resource == "bundledeployments" && !o.own[u.GetNamespace()]:
		id, _, _ := unstructured.NestedString(u.Object, "spec", "deploymentID")
		content, _, _ := strings.Cut(id, ":")
		o.contents[content] = true
	case kind.Resource == "secrets" && !o.own[u.GetNamespace()]:
		if u.GetNamespace() == registrationNamespace && !o.answersOwn(u) {
			o.credentials[u.GetName()] = true
		}
		if !o.answersOwn(u) {
			o.tokens = append(o.tokens, jwt.FindAllString(plain(u), -1)...)
		}
	}
}

var (
	registrationNamespace = names.RegistrationNamespace(names.SystemNamespace)
	jwt                   = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)
)

// answersOwn says whether an object answers a request of the attacker.
func (o *observer) answersOwn(u *unstructured.Unstructured) bool {
	return o.own[u.GetAnnotations()[fleet.AnnotationClusterRegistrationNamespace]]
}

// plain is an object as text, with its data decoded.
func plain(u *unstructured.Unstructured) string {
	text, err := u.MarshalJSON()
	if err != nil {
		return ""
	}
	parts := []string{string(text)}
	for _, field := range []string{"data", "binaryData"} {
		data, _, _ := unstructured.NestedStringMap(u.Object, field) // other kinds may have another one of that name
		for _, value := range data {
			if decoded, err := base64.StdEncoding.DecodeString(value); err == nil {
				parts = append(parts, string(decoded))
			}
		}
	}
	return strings.Join(parts, "\n")
}

// readable says which secret of others an object shows that the attacker can read. It does not quote it.
func (o *observer) readable(u *unstructured.Unstructured) string {
	if u == nil || o.neutral[u.GetNamespace()] || u.GetNamespace() == "" {
		return ""
	}
	text := plain(u)
	if found := o.secrets.FindString(text); found != "" {
		return found
	}
	for _, token := range o.tokens {
		if strings.Contains(text, token) {
			return "a token of another tenant or of the hub"
		}
	}
	return ""
}

// mayChange says whether an attacker may have caused a change: whatever it likes in its own namespaces, but not the
// rights that the hub's operator gives away there; and what the controllers do for each tenant elsewhere.
func (o *observer) mayChange(kind schema.GroupVersionResource, before, now, either *unstructured.Unstructured) bool {
	namespace := either.GetNamespace()
	switch {
	case o.neutral[namespace]:
		return true
	case namespace == registrationNamespace:
		return o.mayAnswer(kind, before, now)
	case o.own[namespace]:
		return !isOperators(kind, either)
	case namespace != "":
		return kind.Resource == "configmaps" && o.isOwnRecovery(either)
	}
	switch kind.Resource {
	case "namespaces":
		return o.own[either.GetName()] && either.GetName() != attacker
	case "contents":
		same := before != nil && now != nil && equality.Semantic.DeepEqual(before.Object["content"], now.Object["content"])
		return same || !o.contents[either.GetName()]
	case "clusterrolebindings":
		return contentreaders.IsBinding(either.GetName()) && o.mayBind(before, now)
	}
	return false
}

// isOwnRecovery says whether a ConfigMap has the tickets of Clusters that were deleted in a namespace of the attacker, or is
// the hub document, which has the recovery token of each workspace, encrypted.
func (o *observer) isOwnRecovery(u *unstructured.Unstructured) bool {
	if u.GetNamespace() == metav1.NamespacePublic {
		return u.GetName() == names.HubDocument
	}
	for namespace := range o.own {
		if u.GetNamespace() == names.SystemNamespace && u.GetName() == names.SafeConcat(names.DeletedClusters, namespace, names.KeyHash(namespace)) {
			return true
		}
	}
	return false
}

// isOperators says whether an object in the attacker's workspace is a right that the hub's operator has given away.
func isOperators(kind schema.GroupVersionResource, u *unstructured.Unstructured) bool {
	operators := u.GetName() == "workspace-admin" || u.GetName() == "auditor"
	return operators && kind.Group == rbacv1.GroupName && u.GetNamespace() == attacker
}

// mayAnswer judges what the controllers write for requests of the attacker where credentials are.
func (o *observer) mayAnswer(kind schema.GroupVersionResource, before, now *unstructured.Unstructured) bool {
	if before != nil && !o.answersOwn(before) || now != nil && !o.answersOwn(now) {
		return false
	}
	if now == nil {
		return true
	}
	switch kind.Resource {
	case "secrets":
		data, _, _ := unstructured.NestedStringMap(now.Object, "data") // without it nothing is handed out
		for _, key := range []string{"deploymentNamespace", "clusterNamespace"} {
			namespace, err := base64.StdEncoding.DecodeString(data[key])
			if err != nil || !o.own[string(namespace)] {
				return false
			}
		}
		return true
	case "roles":
		rules, _, _ := unstructured.NestedSlice(now.Object, "rules") // without it nothing is allowed
		for _, rule := range rules {
			allowed, _ := rule.(map[string]any)
			named, _, _ := unstructured.NestedStringSlice(allowed, "resourceNames")
			if len(named) == 0 || slices.ContainsFunc(named, func(name string) bool { return o.credentials[name] }) {
				return false
			}
		}
		return true
	case "rolebindings":
		return o.isForOwn(subjects(now))
	}
	return false
}

// mayBind says whether the subjects by which two versions of a binding differ are all in the attacker's namespaces.
func (o *observer) mayBind(before, now *unstructured.Unstructured) bool {
	old, current := subjects(before), subjects(now)
	differ := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	return o.isForOwn(append(differ(old, current), differ(current, old)...))
}

func (o *observer) isForOwn(namespaces []string) bool {
	return !slices.ContainsFunc(namespaces, func(s string) bool {
		namespace, _, _ := strings.Cut(s, "/")
		return !o.own[namespace] && !o.neutral[namespace]
	})
}

// subjects are "<namespace>/<name>"; those that are no accounts have no namespace.
func subjects(binding *unstructured.Unstructured) (found []string) {
	if binding == nil {
		return nil
	}
	all, _, _ := unstructured.NestedSlice(binding.Object, "subjects") // without it there are none
	for _, one := range all {
		subject, _ := one.(map[string]any)
		namespace, _ := subject["namespace"].(string)
		name, _ := subject["name"].(string)
		found = append(found, namespace+"/"+name)
	}
	return found
}

// owns adds the namespaces that Clusters of this name have, which the attacker is about to make.
func (o *observer) owns(workspace, cluster string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.own[workspace] {
		o.own[names.ClusterNamespace(workspace, cluster)] = true
	}
}

func (o *observer) isOwn(namespace string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.own[namespace]
}

func (o *observer) arm(armed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = armed
}

// found returns the violations so far.
func (o *observer) found() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.violations)
}

// reach says what an identity may do in a namespace beside what every account may.
func reach(ctx context.Context, config *rest.Config, namespace string) ([]string, error) {
	c, err := clientOf(config)
	if err != nil {
		return nil, err
	}
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": map[string]any{"namespace": namespace},
	}}
	kind := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectrulesreviews"}
	said, err := c.Resource(kind).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	rules, _, err := unstructured.NestedSlice(said.Object, "status", "resourceRules")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, one := range rules {
		rule, _ := one.(map[string]any)
		groups, _, _ := unstructured.NestedStringSlice(rule, "apiGroups") // what is missing is shown as such
		resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
		verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
		trustBundles := slices.Equal(resources, []string{"clustertrustbundles"}) && slices.Equal(verbs, []string{"get", "list", "watch"}) // since Kubernetes 1.37
		if slices.Equal(groups, []string{"authorization.k8s.io"}) || slices.Equal(groups, []string{"authentication.k8s.io"}) || trustBundles {
			continue
		}
		text, err := json.Marshal(rule)
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
	}
	return all, nil
}
