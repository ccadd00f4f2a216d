package certs

// TrustSteps says how the clients on one system come to trust the root.
type TrustSteps struct {
	OS    string   `json:"os"`
	Steps []string `json:"steps"` // what to do, in order; those that begin with "$ " are commands
	Undo  []string `json:"undo,omitempty"`
}

// Trust tells how to trust the root in file, for each system. The commands name
// the downloaded file hearth-ca.pem (PEM) or hearth-ca.crt (DER).
func Trust(file string) []TrustSteps {
	return []TrustSteps{
		{"Debian, Ubuntu", []string{
			"$ sudo cp hearth-ca.pem /usr/local/share/ca-certificates/hearth-ca.crt",
			"$ sudo update-ca-certificates",
		}, []string{"$ sudo rm /usr/local/share/ca-certificates/hearth-ca.crt", "$ sudo update-ca-certificates --fresh"}},
		{"RHEL, Fedora, Rocky, Alma", []string{
			"$ sudo cp hearth-ca.pem /etc/pki/ca-trust/source/anchors/hearth-ca.pem",
			"$ sudo update-ca-trust",
		}, []string{"$ sudo rm /etc/pki/ca-trust/source/anchors/hearth-ca.pem", "$ sudo update-ca-trust"}},
		{"SUSE, openSUSE", []string{
			"$ sudo cp hearth-ca.pem /etc/pki/trust/anchors/hearth-ca.pem",
			"$ sudo update-ca-certificates",
		}, []string{"$ sudo rm /etc/pki/trust/anchors/hearth-ca.pem", "$ sudo update-ca-certificates"}},
		{"Arch", []string{"$ sudo trust anchor --store hearth-ca.pem"}, []string{"$ sudo trust anchor --remove hearth-ca.pem"}},
		{"Alpine", []string{
			"$ doas apk add ca-certificates",
			"$ doas cp hearth-ca.pem /usr/local/share/ca-certificates/hearth-ca.crt",
			"$ doas update-ca-certificates",
		}, []string{"$ doas rm /usr/local/share/ca-certificates/hearth-ca.crt", "$ doas update-ca-certificates"}},
		{"macOS", []string{
			"$ sudo security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain hearth-ca.pem",
			"Or open the file in Keychain Access, and under Trust choose \"Always Trust\".",
		}, []string{"$ sudo security remove-trusted-cert -d hearth-ca.pem"}},
		{"Windows", []string{
			"In a terminal of the administrator:",
			"$ certutil -addstore -f Root hearth-ca.crt",
			"Or open the file, choose Install Certificate, Local Machine, and the store \"Trusted Root Certification Authorities\".",
		}, []string{"$ certutil -delstore Root \"Hearth local authority\""}},
		{"Firefox", []string{
			"On Windows, macOS and Android Firefox takes what the system trusts. Elsewhere:",
			"Settings, Privacy & Security, Certificates, View Certificates, Authorities, Import: hearth-ca.pem.",
			"Tick \"Trust this CA to identify websites\".",
		}, nil},
		{"iOS, iPadOS", []string{
			"Download hearth-ca.crt in Safari and allow the profile.",
			"Settings, General, VPN & Device Management: install the profile.",
			"Settings, General, About, Certificate Trust Settings: turn on full trust for the root.",
		}, nil},
		{"Android", []string{
			"Download hearth-ca.crt.",
			"Settings, Security, More security settings, Encryption & credentials, Install a certificate, CA certificate.",
			"Browsers take it; an app does only if its maker allows user certificates.",
		}, nil},
		{"curl", []string{"$ curl --cacert " + file + " https://…", "$ export CURL_CA_BUNDLE=" + file}, nil},
		{"Python", []string{
			"For the OpenAI and Anthropic SDKs and httpx:",
			"$ export SSL_CERT_FILE=" + file,
			"For requests:",
			"$ export REQUESTS_CA_BUNDLE=" + file,
			"Each takes the place of the usual roots; where those are needed too, put both into one file.",
		}, nil},
		{"Node.js", []string{"$ export NODE_EXTRA_CA_CERTS=" + file}, nil},
		{"Java", []string{"$ keytool -importcert -cacerts -alias hearth -file hearth-ca.pem"}, []string{"$ keytool -delete -cacerts -alias hearth"}},
		{"Go", []string{"On Linux:", "$ export SSL_CERT_FILE=" + file}, nil},
	}
}
