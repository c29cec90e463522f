package apply

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/pack"
	"github.com/fleet-hub/fleet/internal/pack/charts"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Defaults of flags.
const (
	defaultConcurrency = 4
	defaultSeparator   = ":"
)

// maxInput is the maximum size in bytes of a file that a flag names, and of standard input.
const maxInput = 4 << 20

// stdio means standard input or output where a file could be.
const stdio = "-"

type flags struct {
	access *access.Flags

	bundleFile, file, output, targetsFile string
	commit, ociSecret                     string
	labels                                []string
	compress, drivenScan, imageScans      bool
	separator                             string
	concurrency                           int
	settings                              pack.Settings
	drift                                 fleet.CorrectDrift
	username, passwordFile, caFile        string
	sshKeyFile, byPathFile, expression    string
	basicHTTP, insecure                   bool
	strict, debug                         bool
	debugLevel                            int
}

// bind declares the flags.
func (f *flags) bind(to *pflag.FlagSet) {
	f.access.SetNamespace(names.LocalWorkspace)
	f.access.Bind(to)
	to.Lookup("namespace").Usage = "namespace of the Bundles (variable NAMESPACE)"
	to.StringVarP(&f.output, "output", "o", "", "print the Bundles to this file instead of writing them to the hub; - is standard output")
	to.StringVarP(&f.bundleFile, "bundle-file", "b", "", "file with the options of every folder instead of its fleet.yaml; - is standard input")
	to.StringVarP(&f.file, "file", "f", "", "has no effect, and is accepted for compatibility")
	to.StringSliceVarP(&f.labels, "label", "l", nil, "label of the Bundles, as key=value")
	to.StringVar(&f.targetsFile, "targets-file", "", "file with the targets and targetRestrictions to add to every Bundle; a warning if it does not exist")
	to.StringVar(&f.commit, "commit", "", "commit to label the Bundles with (variable COMMIT; default: that of the git work tree)")
	to.BoolVarP(&f.compress, "compress", "c", false, "compress all resources")
	to.BoolVar(&f.imageScans, "imagescan-enabled", false, "allow imageScans in a fleet.yaml")
	to.BoolVar(&f.drivenScan, "driven-scan", false, "make one Bundle of each PATH, which may name the file with its options: FOLDER:FILE")
	to.StringVar(&f.separator, "driven-scan-sep", defaultSeparator, "separator of folder and file with --driven-scan")
	to.IntVar(&f.concurrency, "bundle-creation-max-concurrency", defaultConcurrency,
		"number of folders to read, and of Bundles to write, at once (variable FLEET_BUNDLE_CREATION_MAX_CONCURRENCY)")
	to.StringVar(&f.ociSecret, "oci-registry-secret", "", "Secret of an OCI registry for the contents, which is not supported: it must not exist")
	to.BoolVar(&f.strict, "strict", false, "fail if there are warnings, and separate printed Bundles by ---")
	to.BoolVar(&f.debug, "debug", false, "print what is done")
	to.IntVar(&f.debugLevel, "debug-level", 0, "has no effect, and is accepted for compatibility")
	f.bindSettings(to)
	f.bindCredentials(to)
}

func (f *flags) bindSettings(to *pflag.FlagSet) {
	to.BoolVar(&f.settings.Paused, "paused", false, "stage the Bundles, but do not deploy them")
	to.BoolVar(&f.settings.KeepResources, "keep-resources", false, "keep the resources in clusters when the Bundles are deleted")
	to.BoolVar(&f.settings.DeleteNamespace, "delete-namespace", false, "has no effect, and is accepted for compatibility")
	to.StringVarP(&f.settings.ServiceAccount, "service-account", "a", "", "account with which agents deploy the Bundles")
	to.StringVar(&f.settings.TargetNamespace, "target-namespace", "", "namespace in clusters for all resources")
	to.Int64Var(&f.settings.SyncGeneration, "sync-generation", 0, "a number that causes another deployment when it changes")
	to.BoolVar(&f.drift.Enabled, "correct-drift", false, "undo changes of deployed resources")
	to.BoolVar(&f.drift.Force, "correct-drift-force", false, "with --correct-drift, replace resources that cannot be updated")
	to.BoolVar(&f.drift.KeepFailHistory, "correct-drift-keep-fail-history", false, "with --correct-drift, keep the revisions of failed corrections")
}

func (f *flags) bindCredentials(to *pflag.FlagSet) {
	to.StringVar(&f.username, "username", "", "user for chart repositories (variable HELM_USERNAME); needs --password-file")
	to.StringVar(&f.passwordFile, "password-file", "", "file with the password for chart repositories; needs --username")
	to.StringVar(&f.caFile, "cacerts-file", "", "file with CA certificates of chart repositories; those of a proxy can be in variable PROXY_CA_BUNDLE")
	to.StringVar(&f.sshKeyFile, "ssh-privatekey-file", "", "file with the SSH key for charts in git repositories")
	to.BoolVar(&f.basicHTTP, "helm-basic-http", false, "use plain HTTP for charts in OCI registries")
	to.BoolVar(&f.insecure, "helm-insecure-skip-tls", false, "accept any certificate of chart repositories")
	to.StringVar(&f.byPathFile, "helm-credentials-by-path-file", "", "file with credentials for chart repositories by path of the folder")
	to.StringVar(&f.expression, "helm-repo-url-regex", "", "regular expression that must match the start of a repository URL for credentials to be sent there (default: none)")
}

// readVariables sets the flags that have their default value from variables.
func (c *command) readVariables(set *pflag.FlagSet) error {
	for _, one := range []struct{ flag, variable string }{
		{"namespace", "NAMESPACE"}, {"commit", "COMMIT"}, {"username", "HELM_USERNAME"},
		{"bundle-creation-max-concurrency", "FLEET_BUNDLE_CREATION_MAX_CONCURRENCY"},
	} {
		flag, value := set.Lookup(one.flag), c.environment(one.variable)
		if value == "" || flag.Value.String() != flag.DefValue {
			continue
		}
		if err := flag.Value.Set(value); err != nil {
			return fmt.Errorf("variable %s: %w", one.variable, err)
		}
	}
	if c.concurrency <= 0 {
		c.concurrency = defaultConcurrency
	}
	return nil
}

// run reads what flags name, finds the folders, and makes the Bundles.
func (c *command) run(ctx context.Context, set *pflag.FlagSet, args []string) error {
	if err := c.readVariables(set); err != nil {
		return err
	}
	c.report.Debug = c.debug
	switch {
	case c.file != "" && len(args) != 1:
		return errors.New("the bundle name is required as the first argument")
	case len(args) == 0:
		return errors.New("at least one argument is required: BUNDLE_NAME")
	}
	name, paths := args[0], args[1:]
	if c.file != "" {
		paths = args
	}
	options, err := c.options(name)
	if err != nil {
		return err
	}
	folders, err := c.folders(paths)
	if err != nil {
		return err
	}
	attempts, err := strconv.Atoi(c.environment("FLEET_APPLY_CONFLICT_RETRIES"))
	if err != nil {
		attempts = 1
	}
	return retrying(attempts, func() error { return c.attempt(ctx, paths, folders, options) })
}

func (c *command) folders(paths []string) ([]pack.Folder, error) {
	if c.drivenScan {
		return pack.Split(paths, c.separator)
	}
	options := c.bundleFile
	if options == stdio {
		options = ""
	}
	return pack.Find(paths, options)
}

// options returns what all Bundles are made with.
func (c *command) options(name string) (pack.Options, error) {
	options := pack.Options{
		Name: name, Namespace: c.access.Namespace(), Labels: c.labelled(), Compress: c.compress, ImageScans: c.imageScans,
		Settings: c.settings, Concurrency: c.concurrency, Progress: c.report,
		Charts: pack.Charts{Fetch: charts.Fetch, Complete: charts.Complete},
	}
	if c.drift.Enabled {
		options.Settings.CorrectDrift = &c.drift
	}
	var err error
	if options.Credentials, err = c.credentials(); err != nil {
		return options, fmt.Errorf("adding auth to opts: %w", err)
	}
	if c.targetsFile != "" {
		text, err := readInput(c.targetsFile)
		if err != nil {
			return options, err
		}
		var spec fleet.BundleSpec
		if err := yaml.Unmarshal(text, &spec); err != nil {
			return options, fmt.Errorf("reading %s: %w", c.targetsFile, err)
		}
		if text == nil {
			c.missing = append(c.missing, fmt.Sprintf("the file %s of --targets-file does not exist, so Bundles without other targets go to "+
				"ClusterGroup default; correct the path", c.targetsFile))
		}
		options.Targets, options.Restrictions = spec.Targets, spec.TargetRestrictions
	}
	if c.bundleFile == stdio && !c.drivenScan {
		options.Input, err = readBounded(c.streams.In, "standard input")
	}
	return options, err
}

// labelled returns the labels of all Bundles.
func (c *command) labelled() map[string]string {
	labels := map[string]string{}
	for _, label := range c.labels {
		key, value, _ := strings.Cut(label, "=")
		labels[key] = value
	}
	commit := c.commit
	if commit == "" {
		commit = head(".")
	}
	if commit != "" {
		labels[fleet.LabelCommit] = commit
	}
	return labels
}

// proxyCA is the variable with the certificates of a proxy that reads TLS.
const proxyCA = "PROXY_CA_BUNDLE"

// credentials returns the credentials for charts.
func (c *command) credentials() (pack.Credentials, error) {
	credentials := pack.Credentials{Expression: c.expression, ProxyCA: []byte(c.environment(proxyCA))}
	if len(credentials.ProxyCA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(credentials.ProxyCA) {
		return credentials, fmt.Errorf("variable %s contains no certificate in PEM", proxyCA)
	}
	if c.byPathFile != "" {
		text, err := readInput(c.byPathFile)
		if err == nil {
			credentials.ByPath, err = pack.ParseByPath(text)
		}
		if err != nil {
			return credentials, fmt.Errorf("reading %s: %w", c.byPathFile, err)
		}
		return credentials, nil
	}
	auth := &credentials.Default
	auth.BasicHTTP, auth.InsecureSkipVerify = c.basicHTTP, c.insecure
	auth.SSHKnownHosts = []byte(c.environment("FLEET_KNOWN_HOSTS"))
	var password []byte
	for _, one := range []struct {
		file string
		to   *[]byte
	}{{c.passwordFile, &password}, {c.caFile, &auth.CABundle}, {c.sshKeyFile, &auth.SSHPrivateKey}} {
		if one.file == "" {
			continue
		}
		var err error
		if *one.to, err = readInput(one.file); err != nil {
			return credentials, err
		}
	}
	if c.username != "" && len(password) > 0 {
		auth.Username, auth.Password = c.username, string(password)
	}
	if problem := c.passwordProblem(string(password)); problem != "" {
		c.report.Warn(problem)
	}
	return credentials, nil
}

// passwordProblem says why a chart repository will probably reject the user, or returns "".
func (c *command) passwordProblem(password string) string {
	switch {
	case (c.username != "" || c.passwordFile != "") && (c.username == "" || password == ""):
		return "no user is sent to chart repositories: that needs --username, and --password-file with a file that exists and is not empty"
	case strings.HasSuffix(password, "\n"):
		return fmt.Sprintf("the password in %s ends with a newline, which is sent as a part of it; write the file with printf %%s", c.passwordFile)
	}
	return ""
}

// readInput reads a file that a flag names. One that does not exist counts as empty, and gives nil.
func readInput(path string) ([]byte, error) {
	opened, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return readBounded(opened, path)
}

func readBounded(in io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(text) > maxInput {
		err = fmt.Errorf("%s is larger than %d MiB", name, maxInput>>20)
	}
	return text, err
}
