// Package tune has numbers of package truth that change its speed alone. Tests set them.
package tune

// LeastTree is the number of columns from which a tree is used. For fewer, going through all of
// them is as fast.
var LeastTree = 256
