// Package contract contains the rules of Cluster API's contracts that apply to several kinds: owners, pausing and
// conditions. It knows no client.
package contract
