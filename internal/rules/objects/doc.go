// Package objects builds the Roles, RoleBindings and metadata that several rules return.
package objects
