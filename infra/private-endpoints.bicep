// Private endpoints of what the service reaches, and the names by which it finds them.
targetScope = 'resourceGroup'

@description('Prefix of every name made here.')
param name string

@description('Region of the endpoints.')
param location string

@description('Subnet of the endpoints.')
param subnetId string

@description('Network that the names are for.')
param virtualNetworkId string

@description('What is reached: kind (the group id), id, and zone of each.')
param targets array

resource endpoints 'Microsoft.Network/privateEndpoints@2023-11-01' = [for target in targets: {
  name: '${name}-${target.kind}'
  location: location
  properties: {
    subnet: {
      id: subnetId
    }
    privateLinkServiceConnections: [
      {
        name: target.kind
        properties: {
          privateLinkServiceId: target.id
          groupIds: [
            target.kind
          ]
        }
      }
    ]
  }
}]

resource zones 'Microsoft.Network/privateDnsZones@2020-06-01' = [for target in targets: {
  name: target.zone
  location: 'global'
}]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2020-06-01' = [for (target, index) in targets: {
  parent: zones[index]
  name: name
  location: 'global'
  properties: {
    registrationEnabled: false
    virtualNetwork: {
      id: virtualNetworkId
    }
  }
}]

resource records 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2023-11-01' = [for (target, index) in targets: {
  parent: endpoints[index]
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: target.kind
        properties: {
          privateDnsZoneId: zones[index].id
        }
      }
    ]
  }
}]
