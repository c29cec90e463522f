package podrunner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// errEnv means that a container cannot start because its environment refers to something missing or unsupported.
var errEnv = errors.New("resolving the environment failed")

// environment returns the container's environment, resolved as kubelet does: first envFrom, then env. A later
// entry overrides an earlier one, and a value may use earlier entries as $(NAME).
func environment(ctx context.Context, client corev1client.CoreV1Interface, pod *corev1.Pod, c *corev1.Container) (map[string]string, error) {
	env := map[string]string{}
	for i := range c.EnvFrom {
		more, err := fromSource(ctx, client, pod.Namespace, &c.EnvFrom[i])
		if err != nil {
			return nil, err
		}
		maps.Copy(env, more)
	}
	for i := range c.Env {
		value, found, err := valueOf(ctx, client, pod, &c.Env[i], env)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errEnv, c.Env[i].Name, err)
		}
		if found {
			env[c.Env[i].Name] = value
		}
	}
	return env, nil
}

func fromSource(ctx context.Context, client corev1client.CoreV1Interface, namespace string, source *corev1.EnvFromSource) (map[string]string, error) {
	var found map[string]string
	var err error
	var optional *bool
	switch {
	case source.ConfigMapRef != nil:
		optional = source.ConfigMapRef.Optional
		found, err = configMap(ctx, client, namespace, source.ConfigMapRef.Name)
	case source.SecretRef != nil:
		optional = source.SecretRef.Optional
		found, err = secret(ctx, client, namespace, source.SecretRef.Name)
	}
	if err != nil && (!apierrors.IsNotFound(err) || !isTrue(optional)) {
		return nil, fmt.Errorf("%w: %w", errEnv, err)
	}
	env := make(map[string]string, len(found))
	for key, value := range found {
		env[source.Prefix+key] = value
	}
	return env, nil
}

// valueOf resolves one entry. found is false if an optional reference has no target.
func valueOf(ctx context.Context, client corev1client.CoreV1Interface, pod *corev1.Pod, e *corev1.EnvVar, before map[string]string) (value string, found bool, err error) {
	from := e.ValueFrom
	switch {
	case from == nil:
		return expand(e.Value, before), true, nil
	case from.FieldRef != nil:
		value, err = fieldOf(pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		content, err := configMap(ctx, client, pod.Namespace, ref.Name)
		return keyOf(content, ref.Key, ref.Optional, err)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		content, err := secret(ctx, client, pod.Namespace, ref.Name)
		return keyOf(content, ref.Key, ref.Optional, err)
	}
	return "", false, errors.New("unsupported kind of reference")
}

func keyOf(content map[string]string, key string, optional *bool, err error) (string, bool, error) {
	if err != nil && !apierrors.IsNotFound(err) {
		return "", false, err
	}
	value, found := content[key]
	switch {
	case found || isTrue(optional):
		return value, found, nil
	case err != nil:
		return "", false, err
	}
	return "", false, fmt.Errorf("key %q does not exist", key)
}

func isTrue(b *bool) bool { return b != nil && *b }

func configMap(ctx context.Context, client corev1client.CoreV1Interface, namespace, name string) (map[string]string, error) {
	found, err := client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return found.Data, nil
}

func secret(ctx context.Context, client corev1client.CoreV1Interface, namespace, name string) (map[string]string, error) {
	found, err := client.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	content := make(map[string]string, len(found.Data))
	for key, value := range found.Data {
		content[key] = string(value)
	}
	return content, nil
}

// fieldOf resolves a field of the downward API.
func fieldOf(pod *corev1.Pod, path string) (string, error) {
	fields := map[string]string{
		"metadata.name":           pod.Name,
		"metadata.namespace":      pod.Namespace,
		"metadata.uid":            string(pod.UID),
		"spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"spec.nodeName":           pod.Spec.NodeName,
		"status.podIP":            processAddress,
		"status.podIPs":           processAddress,
		"status.hostIP":           processAddress,
		"status.hostIPs":          processAddress,
	}
	if value, found := fields[path]; found {
		return value, nil
	}
	if key, found := subscript(path, "metadata.labels"); found {
		return pod.Labels[key], nil
	}
	if key, found := subscript(path, "metadata.annotations"); found {
		return pod.Annotations[key], nil
	}
	return "", fmt.Errorf("unsupported field %s", path)
}

// subscript returns the key of "field['key']".
func subscript(path, field string) (string, bool) {
	key, found := strings.CutPrefix(path, field+"['")
	if !found {
		return "", false
	}
	return strings.CutSuffix(key, "']")
}

// expand replaces $(NAME) by the value of NAME. References to unknown names are kept, and $$ becomes $.
func expand(text string, env map[string]string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			out.WriteString("$")
			text = rest[1:]
		case strings.HasPrefix(rest, "(") && strings.Contains(rest, ")"):
			name, after, _ := strings.Cut(rest[1:], ")")
			if value, known := env[name]; known {
				out.WriteString(value)
			} else {
				out.WriteString("$(" + name + ")")
			}
			text = after
		default:
			out.WriteString("$")
			text = rest
		}
	}
}

// lines returns the environment as sorted KEY=value strings.
func lines(env map[string]string) []string {
	all := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		all = append(all, key+"="+env[key])
	}
	return all
}
