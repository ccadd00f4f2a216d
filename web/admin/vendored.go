package admin

import (
	"crypto/sha256"
	"encoding/hex"
)

// VendoredAsset is a file of others among the assets of the pages.
type VendoredAsset struct {
	Name, Version, PURL string
	Licence             string // SPDX
	SHA256              string // hex
}

// Vendored lists them, for the bill of materials; assets/vendored.txt has their
// terms.
func Vendored() []VendoredAsset {
	list := []VendoredAsset{
		{Name: "htmx", Version: "2.0.11", PURL: "pkg:npm/htmx.org@2.0.11"},
		{Name: "htmx-ext-sse", Version: "2.2.4", PURL: "pkg:npm/htmx-ext-sse@2.2.4"},
	}
	for i, file := range []string{"assets/htmx.min.js", "assets/htmx-sse.min.js"} {
		b, err := assetFiles.ReadFile(file)
		if err != nil {
			panic("BUG: " + file + " is not embedded")
		}
		sum := sha256.Sum256(b)
		list[i].Licence, list[i].SHA256 = "0BSD", hex.EncodeToString(sum[:])
	}
	return list
}
