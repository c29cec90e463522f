package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// bearers matches the tokens of service accounts, and joinTexts matches join texts.
var (
	bearers   = regexp.MustCompile(`eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`)
	joinTexts = regexp.MustCompile(`fleet-join-v1:[\w-]{30,}`)
)

// invocation is what a command of a story got and printed.
type invocation struct {
	args           []string
	stdout, stderr string
}

// leakDetector remembers all credentials of the clusters, also those that a story deletes, and what all commands printed.
type leakDetector struct {
	start sync.Once
	stop  context.CancelFunc // ends the watches; nil before they start

	mu          sync.Mutex
	credentials map[string]string // with where it was seen
	commands    []invocation
	objects     map[string]string // as JSON, by what they are
}

var leaks = &leakDetector{credentials: map[string]string{}, objects: map[string]string{}}

// begin starts to watch the Secrets of all clusters, before the first command.
func (w *leakDetector) begin() {
	GinkgoHelper()
	w.start.Do(func() {
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		for _, cluster := range []string{hub, west, north} {
			w.watch(ctx, cluster)
		}
	})
}

// watch starts to watch the Secrets of a cluster.
func (w *leakDetector) watch(ctx context.Context, cluster string) {
	GinkgoHelper()
	w.add(configOf(cluster).BearerToken, "the admin's kubeconfig of "+cluster)
	factory := informers.NewSharedInformerFactory(world.On(cluster).Kube, 0)
	informer := factory.Core().V1().Secrets().Informer()
	add := func(object any) { w.addSecret(cluster, object.(*corev1.Secret)) }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, after any) { add(after) }})
	Expect(err).NotTo(HaveOccurred())
	factory.Start(ctx.Done())
	Expect(cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)).To(BeTrue())
}

func (w *leakDetector) addSecret(cluster string, secret *corev1.Secret) {
	for _, value := range secret.Data {
		for _, bearer := range bearers.FindAllString(string(value), -1) {
			w.add(bearer, fmt.Sprintf("Secret %s/%s of cluster %s", secret.Namespace, secret.Name, cluster))
		}
	}
}

func (w *leakDetector) add(credential, where string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.credentials[credential] = where
}

// addCommand remembers what a command got and printed.
func (w *leakDetector) addCommand(args []string, stdout, stderr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = append(w.commands, invocation{args, stdout, stderr})
}

// leaks returns where a text contains credentials, without them.
func (w *leakDetector) leaks(what, text string) (all []string) {
	for credential, where := range w.credentials {
		if strings.Contains(text, credential) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(credential))) {
			all = append(all, what+" contains a credential: that of "+where)
		}
	}
	return all
}

// ofCommands returns the leaks in arguments and outputs. A credential is printed only to standard output, and only by
// commands that hand it over.
func (w *leakDetector) ofCommands() (all []string) {
	for _, one := range w.commands {
		line := "fleet " + strings.Join(one.args, " ")
		handsOver := slices.Contains(one.args, "--with-secret") || slices.Contains(one.args, "create") || slices.Contains(one.args, "repair")
		all = append(all, w.leaks("a command line", line)...)
		all = append(all, w.leaks("the standard error of "+line, one.stderr)...)
		if !slices.Contains(one.args, "--format") {
			all = append(all, w.leaks("the standard output of "+line, one.stdout)...)
		}
		if joinTexts.MatchString(line+one.stderr) || !handsOver && joinTexts.MatchString(one.stdout) {
			all = append(all, line+": printed a join text")
		}
	}
	return all
}

// note remembers a list of objects.
func (w *leakDetector) note(what string, list runtime.Object, err error) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred(), what)
	document, err := json.Marshal(list)
	Expect(err).NotTo(HaveOccurred(), what)
	w.objects[what] += string(document)
}

// noteObjects remembers the objects of a cluster that are no Secrets: Events, the arguments and variables of pods,
// ConfigMaps.
func (w *leakDetector) noteObjects(ctx context.Context, cluster string) {
	GinkgoHelper()
	core, everywhere := world.On(cluster).Kube, metav1.ListOptions{}
	events, err := core.CoreV1().Events("").List(ctx, everywhere)
	w.note("an Event of "+cluster, events, err)
	pods, err := core.CoreV1().Pods("").List(ctx, everywhere)
	w.note("a Pod of "+cluster, pods, err)
	deployments, err := core.AppsV1().Deployments("").List(ctx, everywhere)
	w.note("a Deployment of "+cluster, deployments, err)
	settings, err := core.CoreV1().ConfigMaps("").List(ctx, everywhere)
	w.note("a ConfigMap of "+cluster, settings, err)
}

// ofObjects returns the leaks in the noted objects of all clusters, and in those of the hub.
func (w *leakDetector) ofObjects(ctx context.Context) (all []string) {
	GinkgoHelper()
	w.noteObjects(ctx, hub)
	for resource, list := range map[string]runtime.Object{
		client.Clusters: &fleet.ClusterList{}, client.Tokens: &fleet.ClusterRegistrationTokenList{}, client.Bundles: &fleet.BundleList{},
		client.ClusterRegistrations: &fleet.ClusterRegistrationList{}, client.BundleDeployments: &fleet.BundleDeploymentList{},
	} {
		w.note("an object of "+resource, list, world.Hub.List(ctx, resource, "", list))
	}
	for what, documents := range w.objects {
		all = append(all, w.leaks(what, documents)...)
	}
	return all
}

// After all stories, no credential that any of them has used is where others can read it.
var _ = AfterSuite(func(ctx SpecContext) {
	if leaks.stop == nil {
		return
	}
	leaks.stop()
	leaks.mu.Lock()
	defer leaks.mu.Unlock()
	Expect(len(leaks.credentials)).To(BeNumerically(">", len(world.Downstreams)+1), "no token was seen")
	Expect(append(leaks.ofCommands(), leaks.ofObjects(ctx)...)).To(BeEmpty())
	GinkgoWriter.Printf("%d credentials, %d commands, %d kinds of objects\n", len(leaks.credentials), len(leaks.commands), len(leaks.objects))
})
