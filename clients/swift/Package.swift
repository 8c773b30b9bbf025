// swift-tools-version:5.7
import PackageDescription

let package = Package(
    name: "Fanfare",
    platforms: [.iOS(.v15), .macOS(.v12), .tvOS(.v15), .watchOS(.v8)],
    products: [.library(name: "Fanfare", targets: ["Fanfare"])],
    targets: [
        .target(name: "Fanfare"),
        .testTarget(name: "FanfareTests", dependencies: ["Fanfare"]),
    ]
)
