package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// printed runs a command line that fleet has printed, as a POSIX shell does: programs joined with && and |, words in single
// quotes, and > to a file. The programs are fleet, and the verbs of kubectl that fixes consist of. Files are in a directory
// of their own.
func printed(ctx SpecContext, line string) {
	GinkgoHelper()
	directory := filepath.Join(world.LogDir, "printed")
	Expect(os.MkdirAll(directory, 0o755)).To(Succeed())
	pipe := ""
	command := []string{}
	run := func(quiet bool) {
		if len(command) >= 2 && command[len(command)-2] == ">" {
			file := filepath.Join(directory, command[len(command)-1])
			Expect(os.WriteFile(file, []byte(program(ctx, directory, pipe, command[:len(command)-2], true)), 0o600)).To(Succeed())
			pipe = ""
		} else {
			pipe = program(ctx, directory, pipe, command, quiet)
		}
		command = []string{}
	}
	for _, word := range shellWords(line) {
		switch word {
		case "&&":
			run(false)
			pipe = ""
		case "|":
			run(true)
		default:
			command = append(command, word)
		}
	}
	run(false)
}

// shellWords splits a command line at spaces that are not quoted.
func shellWords(line string) (words []string) {
	GinkgoHelper()
	var word strings.Builder
	quoted, escaped, started := false, false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\'':
			quoted, started = !quoted, true
		case r == '\\' && !quoted:
			escaped, started = true, true
		case r == ' ' && !quoted:
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	Expect(quoted || escaped).To(BeFalse(), line)
	if started {
		words = append(words, word.String())
	}
	return words
}

// program runs one program and returns its standard output. The output of a quiet one is not shown: it may be secret.
func program(ctx SpecContext, directory, stdin string, words []string, quiet bool) string {
	GinkgoHelper()
	switch words[0] {
	case "fleet":
		if quiet {
			AddReportEntry("transcript", "$ "+strings.Join(words, " "))
			answer, err := commandline.Quiet(ctx, world.User, stdin, words[1:]...)
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.Code).To(Equal(exit.Done), answer.Stderr)
			return answer.Stdout
		}
		answer := run(ctx, stdin, words[1:]...)
		Expect(answer.code).To(Equal(exit.Done), answer.stderr)
		return answer.stdout
	case "kubectl":
		AddReportEntry("transcript", "$ "+strings.Join(words, " "))
		GinkgoWriter.Println("$ " + strings.Join(words, " "))
		k := newKubectl(directory, words[1:])
		return k.run(ctx, stdin)
	}
	Fail("the stories do not know the program " + words[0])
	return ""
}

// kubectl is a call of kubectl.
type kubectl struct {
	directory                     string
	context, namespace            string
	output, patch, patchType, dry string
	fromFile, file                string
	clusterRole, account          string
	verbs, resources, urls        []string
	replicas                      int
	args                          []string
}

// newKubectl parses arguments. It fails the story if kubectl would not know a flag that is used here.
func newKubectl(directory string, words []string) *kubectl {
	GinkgoHelper()
	k := &kubectl{directory: directory}
	flags := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	flags.StringVar(&k.context, "context", hub, "")
	flags.String("kubeconfig", "", "")
	flags.StringVarP(&k.namespace, "namespace", "n", "default", "")
	flags.StringVarP(&k.output, "output", "o", "", "")
	flags.StringVarP(&k.patch, "patch", "p", "", "")
	flags.StringVar(&k.patchType, "type", "", "")
	flags.StringVar(&k.dry, "dry-run", "none", "")
	flags.StringVar(&k.fromFile, "from-file", "", "")
	flags.StringVarP(&k.file, "filename", "f", "", "")
	flags.StringVar(&k.clusterRole, "clusterrole", "", "")
	flags.StringVar(&k.account, "serviceaccount", "", "")
	flags.StringSliceVar(&k.verbs, "verb", nil, "")
	flags.StringSliceVar(&k.resources, "resource", nil, "")
	flags.StringSliceVar(&k.urls, "non-resource-url", nil, "")
	flags.IntVar(&k.replicas, "replicas", -1, "")
	for _, name := range []string{"overwrite", "raw", "flatten", "minify"} {
		flags.Bool(name, false, "")
	}
	Expect(flags.Parse(words)).To(Succeed())
	k.args = flags.Args()
	return k
}

func (k *kubectl) run(ctx SpecContext, stdin string) string {
	GinkgoHelper()
	switch verb := k.args[0]; {
	case verb == "delete":
		Expect(k.resource(k.args[1]).Delete(ctx, k.args[2], metav1.DeleteOptions{})).To(Succeed())
	case verb == "patch":
		Expect(k.patchType).To(Equal("merge"))
		k.merge(ctx, k.args[1], k.args[2], k.patch)
	case verb == "annotate":
		k.merge(ctx, k.args[1], k.args[2], metadataPatch("annotations", k.args[3:]))
	case verb == "label":
		k.merge(ctx, k.args[1], k.args[2], metadataPatch("labels", k.args[3:]))
	case verb == "scale":
		resource, name, found := strings.Cut(k.args[1], "/")
		Expect(found && k.replicas >= 0).To(BeTrue())
		k.merge(ctx, resource, name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, k.replicas))
	case verb == "create" && strings.Join(k.args[1:3], " ") == "secret generic":
		return k.createSecret(ctx, stdin)
	case verb == "create":
		k.create(ctx)
	case strings.Join(k.args[:2], " ") == "rollout restart":
		k.restart(ctx)
	case strings.Join(k.args[:2], " ") == "set env":
		k.setEnv(ctx)
	case verb == "apply":
		Expect(k.file).To(Equal("-"))
		Expect(apply(ctx, k.context, stdin)).To(Succeed())
	case verb == "config" && k.args[1] == "view":
		return string(kubeconfigOf(k.context))
	default:
		Fail("the stories do not know kubectl " + strings.Join(k.args, " "))
	}
	return ""
}

// createSecret creates a Secret from a file, or prints it.
func (k *kubectl) createSecret(ctx SpecContext, stdin string) string {
	GinkgoHelper()
	key, file, found := strings.Cut(k.fromFile, "=")
	Expect(found).To(BeTrue(), k.fromFile)
	content := []byte(stdin)
	if file != "/dev/stdin" {
		var err error
		content, err = os.ReadFile(filepath.Join(k.directory, file))
		Expect(err).NotTo(HaveOccurred())
	}
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.args[3]},
		Data: map[string][]byte{key: content},
	}
	if k.dry == "none" {
		_, err := world.On(k.context).Kube.CoreV1().Secrets(k.namespace).Create(ctx, secret, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return ""
	}
	Expect(k.dry + " " + k.output).To(Equal("client yaml"))
	document, err := yaml.Marshal(secret)
	Expect(err).NotTo(HaveOccurred())
	return string(document)
}

// create creates an account, a ClusterRole, or the binding of one.
func (k *kubectl) create(ctx SpecContext) {
	GinkgoHelper()
	kube, name := world.On(k.context).Kube, k.args[2]
	var err error
	switch k.args[1] {
	case "serviceaccount":
		_, err = kube.CoreV1().ServiceAccounts(k.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	case "clusterrole":
		Expect(k.resources).To(Equal([]string{"*.*"}))
		_, err = kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{Verbs: k.verbs, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: k.verbs, NonResourceURLs: k.urls},
		}}, metav1.CreateOptions{})
	case "clusterrolebinding":
		namespace, account, found := strings.Cut(k.account, ":")
		Expect(found).To(BeTrue(), k.account)
		_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: k.clusterRole},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		}, metav1.CreateOptions{})
	default:
		Fail("the stories do not know kubectl create " + k.args[1])
	}
	Expect(err).NotTo(HaveOccurred())
}

// deployment returns a Deployment that is named as deployment/NAME.
func (k *kubectl) deployment(ctx SpecContext, argument string) *appsv1.Deployment {
	GinkgoHelper()
	name, found := strings.CutPrefix(argument, "deployment/")
	Expect(found).To(BeTrue(), argument)
	deployment, err := world.On(k.context).Kube.AppsV1().Deployments(k.namespace).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return deployment
}

func (k *kubectl) restart(ctx SpecContext) {
	GinkgoHelper()
	deployment := k.deployment(ctx, k.args[2])
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, deployment.ResourceVersion) // differs each time
	k.merge(ctx, "deployments.apps", deployment.Name, patch)
}

// setEnv removes a variable from all containers.
func (k *kubectl) setEnv(ctx SpecContext) {
	GinkgoHelper()
	name, found := strings.CutSuffix(k.args[3], "-")
	Expect(found).To(BeTrue(), k.args[3])
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error { // kubectl sends a patch, which cannot conflict
		deployment := k.deployment(ctx, k.args[2])
		for i := range deployment.Spec.Template.Spec.Containers {
			container := &deployment.Spec.Template.Spec.Containers[i]
			container.Env = slices.DeleteFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		}
		_, err := world.On(k.context).Kube.AppsV1().Deployments(k.namespace).Update(ctx, deployment, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
}

func (k *kubectl) merge(ctx SpecContext, resource, name, patch string) {
	GinkgoHelper()
	_, err := k.resource(resource).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl"})
	Expect(err).NotTo(HaveOccurred())
}

// metadataPatch returns the patch for changes such as a=b (set) and a- (remove).
func metadataPatch(field string, changes []string) string {
	GinkgoHelper()
	values := map[string]any{}
	for _, change := range changes {
		if key, value, found := strings.Cut(change, "="); found {
			values[key] = value
		} else {
			values[strings.TrimSuffix(change, "-")] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{field: values}})
	Expect(err).NotTo(HaveOccurred())
	return string(patch)
}

// resource returns the client of a resource: secret, or clusters.fleet.cattle.io.
func (k *kubectl) resource(name string) dynamic.ResourceInterface {
	GinkgoHelper()
	discovered, err := restmapper.GetAPIGroupResources(world.On(k.context).Kube.Discovery())
	Expect(err).NotTo(HaveOccurred())
	mapper := restmapper.NewDiscoveryRESTMapper(discovered)
	kind, err := mapper.KindFor(schema.ParseGroupResource(name).WithVersion(""))
	Expect(err).NotTo(HaveOccurred())
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	Expect(err).NotTo(HaveOccurred())
	client, err := dynamic.NewForConfig(configOf(k.context))
	Expect(err).NotTo(HaveOccurred())
	if mapping.Scope.Name() == "root" {
		return client.Resource(mapping.Resource)
	}
	return client.Resource(mapping.Resource).Namespace(k.namespace)
}
