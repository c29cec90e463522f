package hubtest

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
)

// clientset returns client-go's fake with the hub's objects. It serves what controllers read past their caches, and
// tokens.
func (h *Hub) clientset() *fake.Clientset {
	c := fake.NewClientset()
	c.PrependReactor("*", "*", func(action testing.Action) (bool, runtime.Object, error) {
		return true, nil, unexpected(action.GetVerb() + " " + action.GetResource().Resource)
	})
	reading := func(example Object) testing.ReactionFunc {
		return func(action testing.Action) (bool, runtime.Object, error) {
			name := action.(testing.GetAction).GetName()
			found, err := h.read(example, action.GetResource().GroupResource(), action.GetNamespace(), name)
			return true, found, err
		}
	}
	c.PrependReactor("get", "secrets", reading(&corev1.Secret{}))
	c.PrependReactor("get", "serviceaccounts", reading(&corev1.ServiceAccount{}))
	c.PrependReactor("get", "configmaps", reading(&corev1.ConfigMap{}))
	c.PrependReactor("get", "namespaces", reading(&corev1.Namespace{}))
	c.PrependReactor("create", "serviceaccounts", h.mint)
	c.PrependReactor("create", "tokenreviews", h.review)
	core := corev1.SchemeGroupVersion
	serveWrites(c, "configmaps", &fakeKind[*corev1.ConfigMap, *corev1.ConfigMapList]{hub: h, gvk: core.WithKind("ConfigMap")})
	serveWrites(c, "secrets", &fakeKind[*corev1.Secret, *corev1.SecretList]{hub: h, gvk: core.WithKind("Secret")})
	c.PrependReactor("delete-collection", "secrets", h.deletingSelected("Secret"))
	c.PrependReactor("delete-collection", "roles", h.deletingSelected("Role"))
	c.PrependReactor("delete-collection", "rolebindings", h.deletingSelected("RoleBinding"))
	return c
}

func (h *Hub) read(example Object, resource schema.GroupResource, namespace, name string) (runtime.Object, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := id(example, namespace, name)
	if err := h.note("get", key); err != nil {
		return nil, err
	}
	found := h.objects[key]
	if found == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	return found.DeepCopyObject(), nil
}

// deletingSelected deletes the objects of a kind in a namespace that a label selector selects.
func (h *Hub) deletingSelected(kind string) testing.ReactionFunc {
	return func(action testing.Action) (bool, runtime.Object, error) {
		selector := action.(testing.DeleteCollectionAction).GetListRestrictions().Labels
		h.mu.Lock()
		defer h.mu.Unlock()
		if err := h.note("deletecollection", kind+" "+action.GetNamespace()+" "+selector.String()); err != nil {
			return true, nil, err
		}
		maps.DeleteFunc(h.objects, func(key string, object Object) bool {
			return strings.HasPrefix(key, kind+" "+action.GetNamespace()+"/") && selector.Matches(labels.Set(object.GetLabels()))
		})
		return true, nil, nil
	}
}

// review answers a TokenReview.
func (h *Hub) review(action testing.Action) (bool, runtime.Object, error) {
	review, ok := action.(testing.CreateAction).GetObject().(*authenticationv1.TokenReview)
	if !ok {
		return true, nil, unexpected("create a review")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.note("review", "token"); err != nil {
		return true, nil, err
	}
	answer := review.DeepCopy()
	answer.Status.Authenticated = h.rejects == nil || !h.rejects(review.Spec.Token)
	return true, answer, nil
}

// mint answers a TokenRequest.
func (h *Hub) mint(action testing.Action) (bool, runtime.Object, error) {
	request, ok := action.(testing.CreateAction).GetObject().(*authenticationv1.TokenRequest)
	if !ok {
		return true, nil, unexpected("create an account past its kind")
	}
	create := action.(testing.CreateActionImpl)
	life := time.Duration(*request.Spec.ExpirationSeconds) * time.Second
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.note("mint", keyOf(create.Namespace, create.Name)+" "+life.String()); err != nil {
		return true, nil, err
	}
	account := h.objects[id(&corev1.ServiceAccount{}, create.Namespace, create.Name)]
	if account == nil {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, create.Name)
	}
	if h.cap > 0 && life > h.cap {
		life = h.cap
	}
	seconds := int64(life / time.Second)
	answer := request.DeepCopy()
	answer.Spec.ExpirationSeconds = &seconds
	answer.Status.Token = Token(string(account.GetUID()), h.now.Add(life))
	return true, answer, nil
}

// Token returns an unsigned token of an account, as the API server creates them. With a zero time it is like that of a
// token Secret and does not expire.
func Token(accountUID string, expires time.Time) string {
	claims := map[string]any{"kubernetes.io/serviceaccount/service-account.uid": accountUID}
	if !expires.IsZero() {
		claims = map[string]any{"exp": expires.Unix(), "kubernetes.io": map[string]any{"serviceaccount": map[string]any{"uid": accountUID}}}
	}
	document, _ := json.Marshal(claims) // plain values always encode
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(document) + "." + encode([]byte("signature"))
}
