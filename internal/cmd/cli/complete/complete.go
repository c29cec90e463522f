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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Limits of a completion.
const (
	patience = 3 * time.Second
	maxNames = 500
)

// Clusters completes the first argument with names of Clusters.
func Clusters(flags *access.Flags) cobra.CompletionFunc {
	return first(func(ctx context.Context, options metav1.ListOptions) (all []string, err error) {
		hub, err := flags.Open()
		if err != nil {
			return nil, err
		}
		list, err := hub.Clusters(hub.Namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			all = append(all, list.Items[i].Name)
		}
		return all, nil
	})
}

// Tokens completes all arguments with names of tokens that are not among them.
func Tokens(flags *access.Flags) cobra.CompletionFunc {
	list := func(ctx context.Context, options metav1.ListOptions) (all []string, err error) {
		hub, err := flags.Open()
		if err != nil {
			return nil, err
		}
		list, err := hub.Tokens(hub.Namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			all = append(all, list.Items[i].Name)
		}
		return all, nil
	}
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return matching(command.Context(), list, args, prefix)
	}
}

// Takeovers completes the first argument with names of Clusters, and the second one with the requests that wait for a
// confirmation.
func Takeovers(flags *access.Flags) cobra.CompletionFunc {
	clusters := Clusters(flags)
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return clusters(command, args, prefix)
		}
		return first(func(ctx context.Context, options metav1.ListOptions) (all []string, err error) {
			hub, err := flags.Open()
			if err != nil {
				return nil, err
			}
			list, err := hub.Registrations(hub.Namespace).List(ctx, options)
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				granted := fleet.GetCondition(list.Items[i].Status.Conditions, fleet.ConditionGranted)
				if granted != nil && granted.Reason == fleet.ReasonTakeoverPending && list.Items[i].Status.ClusterName == args[0] {
					all = append(all, list.Items[i].Name)
				}
			}
			return all, nil
		})(command, args[1:], prefix)
	}
}

// first completes the first argument with names, of one page at most. Errors give no names.
func first(list func(context.Context, metav1.ListOptions) ([]string, error)) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return matching(command.Context(), list, nil, prefix)
	}
}

// matching returns the names with a prefix that are not among the arguments.
func matching(ctx context.Context, list func(context.Context, metav1.ListOptions) ([]string, error), args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := list(ctx, metav1.ListOptions{Limit: maxNames})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	names := all[:0]
	for _, name := range all {
		if strings.HasPrefix(name, prefix) && !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
