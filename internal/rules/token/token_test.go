package token_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// tokenInput returns a new token without any objects.
func tokenInput(modifiers ...func(*tokenrule.Input)) tokenrule.Input {
	return *rulestest.Build(&tokenrule.Input{
		Now: rulestest.Noon(), Token: rulestest.AToken(), APIServerURL: rulestest.HubURL, APIServerCA: []byte(rulestest.HubCA), Namespaces: rulestest.HubNamespaces(),
	}, modifiers)
}

func tokenWith(modifiers ...func(*fleet.ClusterRegistrationToken)) func(*tokenrule.Input) {
	return func(in *tokenrule.Input) { in.Token = rulestest.AToken(modifiers...) }
}

func tokenMade(ago time.Duration) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.CreationTimestamp = rulestest.At(-ago) }
}

func tokenReported(status fleet.ClusterRegistrationTokenStatus) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.Status = status }
}

func tokenOfLength(n int) func(*fleet.ClusterRegistrationToken) {
	return func(t *fleet.ClusterRegistrationToken) { t.Name = strings.Repeat("t", n) }
}

func importAccount(in *tokenrule.Input) {
	in.Account = rulestest.AnAccount(rulestest.Workspace, "t1-u1", "account-1")
}

func importRights(in *tokenrule.Input) { in.RightsExist = true }

func holding(bearer string) func(*tokenrule.Input) {
	return func(in *tokenrule.Input) { in.Secret = rulestest.ValuesSecret(bearer) }
}

func ttlRequired(in *tokenrule.Input) { in.TTLRequired = true }

func TestToken(t *testing.T) {
	works := rulestest.BoundJWT("account-1", rulestest.Noon().Add(time.Hour))
	ready := []func(*tokenrule.Input){importAccount, importRights, holding(works)}
	with := func(modifiers ...func(*tokenrule.Input)) tokenrule.Input {
		return tokenInput(append(append([]func(*tokenrule.Input){}, ready...), modifiers...)...)
	}
	tests := map[string]struct {
		in   tokenrule.Input
		want tokenrule.Stage
	}{
		// The steps to the values Secret.
		"new token: gets an account with the right to create requests": {tokenInput(), tokenrule.AwaitingRights},
		"account without rights: waits":                                {tokenInput(importAccount), tokenrule.AwaitingRights},
		"rights without an account: waits":                             {tokenInput(importRights), tokenrule.AwaitingRights},
		"account and rights: a bearer token is requested":              {tokenInput(importAccount, importRights), tokenrule.Minting},
		"values with a valid bearer token: ready":                      {with(), tokenrule.Ready},
		"bearer token of a token Secret: ready":                        {with(holding(rulestest.SecretJWT("account-1"))), tokenrule.Ready},
		"rights are deleted: created again, values stay":               {with(func(in *tokenrule.Input) { in.RightsExist = false }), tokenrule.Ready},
		"another hub URL: written with the same bearer token":          {with(func(in *tokenrule.Input) { in.APIServerURL = "https://new.example" }), tokenrule.Ready},
		"another system namespace: written": {with(func(in *tokenrule.Input) {
			in.Namespaces = clusters.Namespaces{System: "hub", Registration: "hub-clusters-system"}
		}), tokenrule.Ready},
		"hub without a CA: no CA":              {with(func(in *tokenrule.Input) { in.APIServerCA = nil }), tokenrule.Ready},
		"conditions of other controllers stay": {with(tokenWith(tokenReported(fleet.ClusterRegistrationTokenStatus{Conditions: []genericcondition.GenericCondition{{Type: "Ready"}}}))), tokenrule.Ready},
		"outdated status: corrected":           {tokenInput(tokenWith(tokenReported(fleet.ClusterRegistrationTokenStatus{SecretName: "t1", Expires: &metav1.Time{Time: rulestest.Noon()}}))), tokenrule.AwaitingRights},

		// Bearer tokens that do not work.
		"bearer token of a former account: replaced": {with(holding(rulestest.BoundJWT("account-0", time.Time{}))), tokenrule.Minting},
		"expired bearer token: replaced":             {with(holding(rulestest.BoundJWT("account-1", rulestest.Noon()))), tokenrule.Minting},
		"invalid bearer token: replaced":             {with(holding("letmein")), tokenrule.Minting},
		"values without a bearer token: filled":      {with(holding("")), tokenrule.Minting},
		"invalid values: written again":              {with(func(in *tokenrule.Input) { in.Secret.Data["values"] = []byte("- x") }), tokenrule.Minting},
		"Secret without values: filled":              {with(func(in *tokenrule.Input) { in.Secret.Data = nil }), tokenrule.Minting},
		"account is deleted: a new one is awaited":   {with(func(in *tokenrule.Input) { in.Account, in.RightsExist = nil, false }), tokenrule.AwaitingRights},

		// A time to live that was raised.
		"bearer token expires a day before the token: replaced":             {with(tokenWith(rulestest.WithTTL(25 * time.Hour))), tokenrule.Minting},
		"bearer token expires a day before the token, no rights yet: stays": {with(tokenWith(rulestest.WithTTL(25*time.Hour)), func(in *tokenrule.Input) { in.RightsExist = false }), tokenrule.Ready},
		"bearer token expires hours before the token: stays":                {with(tokenWith(rulestest.WithTTL(13 * time.Hour))), tokenrule.Ready},
		"bearer token without an expiry: stays":                             {with(tokenWith(rulestest.WithTTL(25*time.Hour)), holding(rulestest.SecretJWT("account-1"))), tokenrule.Ready},
		"bearer token with the longest lifetime: stays":                     {with(tokenWith(rulestest.WithTTL(2562047*time.Hour)), holding(rulestest.BoundJWT("account-1", rulestest.Noon().Add(protocol.TokenLifetime)))), tokenrule.Ready},

		// Name conflicts.
		"Secret of another type: blocked":                 {with(func(in *tokenrule.Input) { in.Secret.Type = corev1.SecretTypeOpaque }), tokenrule.Blocked},
		"Secret of another type, no account yet: blocked": {tokenInput(holding(works), func(in *tokenrule.Input) { in.Secret.Type = corev1.SecretTypeOpaque }), tokenrule.Blocked},

		// Names that are too long.
		"name of 63 characters: accepted":                           {tokenInput(tokenWith(tokenOfLength(63))), tokenrule.AwaitingRights},
		"name of 64 characters: nothing is created":                 {tokenInput(tokenWith(tokenOfLength(64))), tokenrule.Unusable},
		"name of 64 characters, objects exist: deleted":             {with(tokenWith(tokenOfLength(64), tokenReported(fleet.ClusterRegistrationTokenStatus{SecretName: "t1"}))), tokenrule.Unusable},
		"name of 64 characters with a TTL: requeued for its expiry": {tokenInput(tokenWith(tokenOfLength(64), rulestest.WithTTL(time.Hour))), tokenrule.Unusable},
		"name of 64 characters, TTL has passed: deleted":            {tokenInput(tokenWith(tokenOfLength(64), rulestest.WithTTL(time.Minute), tokenMade(time.Hour))), tokenrule.Ended},

		// Expiry.
		"TTL: requeued for its expiry":                                {with(tokenWith(rulestest.WithTTL(time.Hour))), tokenrule.Ready},
		"blocked token with a TTL: requeued for its expiry":           {with(tokenWith(rulestest.WithTTL(time.Hour)), func(in *tokenrule.Input) { in.Secret.Type = corev1.SecretTypeOpaque }), tokenrule.Blocked},
		"TTL ends now: ready":                                         {with(tokenWith(rulestest.WithTTL(time.Minute))), tokenrule.Ready},
		"TTL has passed: deleted":                                     {with(tokenWith(rulestest.WithTTL(time.Minute), tokenMade(time.Minute+time.Millisecond))), tokenrule.Ended},
		"TTL of zero: never expires, status shows an expiry":          {with(tokenWith(rulestest.WithTTL(0))), tokenrule.Ready},
		"TTL is required, token without one: deleted":                 {with(ttlRequired), tokenrule.Ended},
		"TTL is required, TTL of zero: deleted":                       {with(ttlRequired, tokenWith(rulestest.WithTTL(0))), tokenrule.Ended},
		"TTL is required, token with one: ready":                      {with(ttlRequired, tokenWith(rulestest.WithTTL(time.Hour))), tokenrule.Ready},
		"default TTL, new token: it gets the default":                 {tokenInput(tokenByDefault(time.Hour)), tokenrule.AwaitingRights},
		"default TTL, token with its own TTL: the own one wins":       {with(tokenByDefault(time.Hour), tokenWith(rulestest.WithTTL(2*time.Hour))), tokenrule.Ready},
		"default TTL, token with a TTL of zero: it never expires":     {with(tokenByDefault(time.Minute), tokenWith(rulestest.WithTTL(0), tokenMade(time.Hour))), tokenrule.Ready},
		"default TTL, token with a Secret before the upgrade: never":  {with(tokenByDefault(time.Minute), tokenWith(tokenMade(time.Hour), tokenReported(fleet.ClusterRegistrationTokenStatus{SecretName: "t1"}))), tokenrule.Ready},
		"default TTL, token with a problem before the upgrade: never": {with(tokenByDefault(time.Minute), tokenWith(tokenMade(time.Hour), tokenReported(fleet.ClusterRegistrationTokenStatus{Conditions: []genericcondition.GenericCondition{{Type: "Ready"}}}))), tokenrule.Ready},
		"recorded default, hub has another one now: the recorded one": {with(tokenByDefault(24*time.Hour), tokenWith(tokenReported(fleet.ClusterRegistrationTokenStatus{SecretName: "t1", DefaultTTL: &metav1.Duration{Duration: time.Hour}}))), tokenrule.Ready},
		"recorded default has passed: the token ends":                 {with(tokenWith(tokenMade(2*time.Hour), tokenReported(fleet.ClusterRegistrationTokenStatus{SecretName: "t1", DefaultTTL: &metav1.Duration{Duration: time.Hour}}))), tokenrule.Ended},
		"TTL is required, token with the default: deleted":            {with(ttlRequired, tokenByDefault(time.Hour)), tokenrule.Ended},
		"TTL removed from a token: it never expires":                  {with(tokenByDefault(time.Minute), tokenWith(tokenMade(time.Hour), tokenReported(fleet.ClusterRegistrationTokenStatus{SecretName: "t1", Expires: &metav1.Time{Time: rulestest.Noon()}}))), tokenrule.Ready},
		"longest TTL of the API: no overflow":                         {with(tokenWith(rulestest.WithTTL(2562047 * time.Hour))), tokenrule.Minting},
	}
	golden := rulestest.GoldenOf(t, "token")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, tokenrule.Decide, test.in)
			rulestest.ExpectEqual(t, "stage", got.Stage, test.want)
			golden.Expect(t, name, rulestest.YAML(t, got))
			checkTokenOutcome(t, got)
		})
	}
}

// checkTokenOutcome checks what holds for every outcome.
func checkTokenOutcome(t *testing.T, out tokenrule.Outcome) {
	t.Helper()
	if (out.Mint != nil) != (out.Stage == tokenrule.Minting) {
		t.Error("a bearer token is asked for in stage Minting and in no other")
	}
	if (len(out.Children) == 0) != (out.Stage == tokenrule.Ended || out.Stage == tokenrule.Unusable) {
		t.Error("the set is empty when the token has ended or was never any use, and only then")
	}
	if (out.Reason == "") != (out.Message == "") {
		t.Errorf("reason %q with message %q", out.Reason, out.Message)
	}
	there := out.Stage == tokenrule.Ready || out.Stage == tokenrule.Minting
	if out.Stage != tokenrule.Ended && (out.Status.SecretName != "") != there {
		t.Error("the status names the secret when it is there or about to be, and only then")
	}
	if !out.Recheck.IsZero() && out.Recheck.Before(rulestest.Noon()) {
		t.Errorf("looking again at %s, which is past, is looking for ever", out.Recheck)
	}
	if out.Delete != (out.Stage == tokenrule.Ended) {
		t.Error("a token is deleted when it has ended, and only then")
	}
}

func TestToken_LaterStagesKeepEarlierObjects(t *testing.T) {
	working := holding(rulestest.BoundJWT("account-1", time.Time{}))
	steps := []tokenrule.Input{
		tokenInput(), tokenInput(importAccount), tokenInput(importAccount, importRights), tokenInput(importAccount, importRights, working),
	}
	var before []string
	for _, in := range steps {
		now := rulestest.Lines(t, tokenrule.Decide(in).Children)
		if len(now) < len(before) || !slices.Equal(now[:len(before)], before) {
			t.Errorf("the set shrank from %v to %v", before, now)
		}
		before = now
	}
}

func TestImportLifetime(t *testing.T) {
	tests := map[string]struct {
		now   time.Duration
		token *fleet.ClusterRegistrationToken
		want  time.Duration
	}{
		"no expiry: the longest lifetime":                   {0, rulestest.AToken(), protocol.TokenLifetime},
		"expiry: lifetime until then":                       {0, rulestest.AToken(rulestest.WithTTL(time.Hour)), 59 * time.Minute},
		"fraction of a second: rounded up":                  {300 * time.Millisecond, rulestest.AToken(rulestest.WithTTL(time.Hour)), 59 * time.Minute},
		"close to the expiry: shortest lifetime of the API": {0, rulestest.AToken(rulestest.WithTTL(5 * time.Minute)), protocol.MinTokenLifetime},
		"longer than the API allows: shortened":             {0, rulestest.AToken(rulestest.WithTTL(2562047 * time.Hour)), protocol.TokenLifetime},
		"TTL of zero: no expiry":                            {0, rulestest.AToken(rulestest.WithTTL(0)), protocol.TokenLifetime},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rulestest.Pure(t, tokenrule.Decide, tokenInput(importAccount, importRights, func(in *tokenrule.Input) {
				in.Token, in.Now = test.token, rulestest.Noon().Add(test.now)
			}))
			rulestest.ExpectEqual(t, "mint", got.Mint, &protocol.Mint{Namespace: rulestest.Workspace, Account: "t1-u1", Lifetime: test.want})
		})
	}
}

// A bearer token that ends with its ClusterRegistrationToken must not need another one before that.
func TestBearerToken_LastsAsLongAsItsToken(t *testing.T) {
	in := tokenInput(importAccount, importRights, tokenWith(rulestest.WithTTL(time.Hour)))
	in.Now = in.Now.Add(700 * time.Millisecond)
	lifetime := tokenrule.Decide(in).Mint.Lifetime
	given := in.Now.Add(10 * time.Millisecond).Truncate(time.Second).Add(lifetime) // as the API server counts
	in.Secret = rulestest.ValuesSecret(rulestest.BoundJWT("account-1", given))
	in.Now = in.Token.CreationTimestamp.Add(time.Hour - time.Nanosecond)
	rulestest.ExpectEqual(t, "stage in the last moment", tokenrule.Decide(in).Stage, tokenrule.Ready)
}

func TestTokenObjects(t *testing.T) {
	golden := rulestest.GoldenOf(t, "token-objects")
	for name, token := range map[string]*fleet.ClusterRegistrationToken{
		"a token": rulestest.AToken(),
		"a token with a long name, whose account and roles are cut": rulestest.AToken(func(t *fleet.ClusterRegistrationToken) {
			t.Name, t.UID = "import-token-my-cluster", "12345678-1234-1234-1234-123456789012"
		}),
	} {
		t.Run(name, func(t *testing.T) {
			in := tokenInput(importAccount, importRights, func(in *tokenrule.Input) { in.Token = token })
			in.Secret = rulestest.ValuesSecret(rulestest.BoundJWT("account-1", time.Time{}))
			golden.Expect(t, name, rulestest.FullYAML(t, rulestest.Pure(t, tokenrule.Decide, in).Children))
		})
	}
}

// An address of the hub that YAML cannot hold changes nothing for those who have joined with another.
func TestInvalidHubAddress_KeepsTheValuesSecret(t *testing.T) {
	in := tokenInput(importAccount, importRights, holding(rulestest.BoundJWT("account-1", time.Time{})))
	in.APIServerURL = "\x7f"
	out := rulestest.Pure(t, tokenrule.Decide, in)
	rulestest.ExpectEqual(t, "stage", out.Stage, tokenrule.Ready)
	rulestest.ExpectEqual(t, "values secret", out.Children[len(out.Children)-1].(*corev1.Secret), in.Secret)
}

func TestHubCAThatIsNotPEM_ReplacesNoOther(t *testing.T) {
	tests := map[string]struct{ there, configured, want string }{
		"text over a certificate: stays":          {rulestest.HubCA, "bm90IHBlbQ==", rulestest.HubCA},
		"text over another text: written":         {"text", "bm90IHBlbQ==", "bm90IHBlbQ=="},
		"certificate over another one: written":   {rulestest.HubCA, rulestest.OtherCA, rulestest.OtherCA},
		"no CA over a certificate: written":       {rulestest.HubCA, "", ""},
		"certificate over a text: written":        {"text", rulestest.HubCA, rulestest.HubCA},
		"text, and the Secret does not exist yet": {"", "bm90IHBlbQ==", "bm90IHBlbQ=="},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := tokenInput(importAccount, importRights)
			in.APIServerCA = []byte(test.configured)
			if test.there != "" {
				secret, err := tokenrule.ValuesSecret(in.Token, protocol.Values{Token: rulestest.SecretJWT("account-1"), APIServerCA: test.there})
				if err != nil {
					t.Fatal(err)
				}
				in.Secret = secret
			}
			rulestest.ExpectEqual(t, "CA", rulestest.Pure(t, tokenrule.Decide, in).Values.APIServerCA, test.want)
		})
	}
}

func TestValuesSecret_RejectsControlCharacters(t *testing.T) {
	secret, err := tokenrule.ValuesSecret(rulestest.AToken(), protocol.Values{Token: "jwt", APIServerCA: "\x7f"})
	if err == nil || secret != nil {
		t.Errorf("secret %v, error %v: what YAML cannot hold is an error", secret, err)
	}
}

func TestValuesSecret_ParsesAsBootstrapSecret(t *testing.T) {
	out := tokenrule.Decide(tokenInput(importAccount, importRights, holding(rulestest.BoundJWT("account-1", time.Time{}))))
	secret, isSecret := out.Children[len(out.Children)-1].(*corev1.Secret)
	if !isSecret {
		t.Fatalf("the last child is %T", out.Children[len(out.Children)-1])
	}
	got, err := protocol.ParseBootstrap(secret.Data)
	if err != nil {
		t.Fatal(err)
	}
	rulestest.ExpectEqual(t, "bootstrap", got, protocol.Bootstrap{
		APIServerURL: rulestest.HubURL, APIServerCA: []byte(rulestest.HubCA), ClusterNamespace: rulestest.Workspace, Token: rulestest.BoundJWT("account-1", time.Time{}),
		TokenName: "t1", SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	})
}

func tokenByDefault(ttl time.Duration) func(*tokenrule.Input) {
	return func(in *tokenrule.Input) { in.DefaultTTL = ttl }
}
