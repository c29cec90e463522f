// Package complete completes the names of objects on the command line.
//
//	flags, prefix ─► one list request with a deadline ─► names
package complete

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Limits of a completion.
const (
	patience = 3 * time.Second
	maxNames = 500
)

// Clusters completes the first argument with names of Clusters.
func Clusters(flags *access.Flags) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(command, flags, (*access.Cluster).Clusters, func(c *fleet.Cluster) bool { return strings.HasPrefix(c.Name, prefix) })
	}
}

// Tokens completes all arguments with names of tokens that are not among them.
func Tokens(flags *access.Flags) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return names(command, flags, (*access.Cluster).Tokens, func(t *fleet.ClusterRegistrationToken) bool {
			return strings.HasPrefix(t.Name, prefix) && !slices.Contains(args, t.Name)
		})
	}
}

// Takeovers completes the first argument with names of Clusters, and the second one with the requests that wait for a
// confirmation.
func Takeovers(flags *access.Flags) cobra.CompletionFunc {
	clusters := Clusters(flags)
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return clusters(command, args, prefix)
		}
		return names(command, flags, (*access.Cluster).Registrations, func(request *fleet.ClusterRegistration) bool {
			granted := conditions.Get(request.Status.Conditions, conditions.Granted)
			waits := granted != nil && granted.Reason == conditions.ReasonTakeoverPending && request.Status.ClusterName == args[0]
			return waits && strings.HasPrefix(request.Name, prefix)
		})
	}
}

// names returns the names of the objects of a kind that wanted accepts, of one page at most. Errors give no names.
func names[T access.Object, L runtime.Object](
	command *cobra.Command, flags *access.Flags, kind func(*access.Cluster, string) *access.Client[T, L], wanted func(T) bool,
) (all []string, directive cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(command.Context(), patience)
	defer cancel()
	hub, err := flags.Open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	page, err := kind(hub, hub.Namespace).List(ctx, metav1.ListOptions{Limit: maxNames})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	_ = meta.EachListItem(page, func(item runtime.Object) error { // a typed list has no other items
		if one := item.(T); wanted(one) {
			all = append(all, one.GetName())
		}
		return nil
	})
	return all, cobra.ShellCompDirectiveNoFileComp
}
